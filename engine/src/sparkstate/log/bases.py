"""Bases of a lineage's log: the fold of all entries up to a number, from which readers go on.

They lie beside the entries as ``log/_checkpoint-%012d``. The newest two count: the lower one is the *floor*, at and
below which entries may be deleted, so all that the newest says is also in the floor's base and the entries after it.
One damaged base therefore costs time, and nothing else. ``log.log`` has the theory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from sparkstate import errors
from sparkstate.log import framing, records
from sparkstate.log.state import LogState
from sparkstate.storage.objectstore import ObjectStore

MAGIC = b"SSLS"
VERSION = 1
FOLDER = records.FOLDER
_PREFIX = f"{FOLDER}/_checkpoint-"

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(LogState)


@dataclass(frozen=True)
class Bases:
    """The numbers of the bases that a listing showed, in order."""

    numbers: tuple[int, ...] = ()

    @property
    def newest(self) -> int:
        """0: there is none."""
        return self.numbers[-1] if self.numbers else 0

    @property
    def floor(self) -> int:
        """Entries up to here may have been deleted, and deleted names created anew; 0: none."""
        return self.numbers[-2] if len(self.numbers) > 1 else 0

    @property
    def outdated(self) -> tuple[int, ...]:
        """Those that nobody reads any more."""
        return self.numbers[:-2]


def key_of(number: int) -> str:
    """The object of the base at ``number``."""
    return f"{_PREFIX}{number:012d}"


def listed(store: ObjectStore) -> Bases:
    """The bases that exist now: one listing, of two names in the usual case."""
    names = [info.key.removeprefix(_PREFIX) for info in store.list(_PREFIX)]
    return Bases(tuple(sorted(int(name) for name in names if name.isdigit())))


def read(store: ObjectStore, number: int) -> LogState:
    """Raises ``NotFound``, ``CorruptData``, ``UnknownFormat``, ``StorageUnavailable``."""
    name = f"{store.url}/{key_of(number)}"
    payload = framing.unframe(MAGIC, VERSION, store.get(key_of(number)), name)
    state = framing.parse(_DECODER, payload, name)
    if state.last_number != number:
        raise errors.CorruptData(f"{name} holds the state at {state.last_number}")
    return state


def write(store: ObjectStore, state: LogState) -> None:
    """Create the base at ``state.last_number``; another one that is there already is as good."""
    with contextlib.suppress(errors.AlreadyExists):
        store.put_if_absent(key_of(state.last_number), framing.frame(MAGIC, VERSION, _ENCODER.encode(state)))


def newest_readable(store: ObjectStore, numbers: Iterable[int]) -> tuple[LogState | None, str]:
    """The state of the first of ``numbers`` that can be read, or None; and what was wrong with the others.

    One that is of an unknown format is as good as damaged. Raises what the storage raises.
    """
    problems: list[str] = []
    for number in numbers:
        try:
            return read(store, number), "; ".join(problems)
        except (errors.NotFound, errors.CorruptData, errors.UnknownFormat) as error:
            problems.append(str(error))
    return None, "; ".join(problems)
