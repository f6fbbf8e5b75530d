"""The memory that operator state may take in a slot, and the sizes that count against it.

Operator state lies in the heap of the slot's Python process, so nothing but the kernel would bound it, and the kernel
ends the process without a word. Sizes are estimates of the objects: exact for the entries of a map, and for lists from
a sample of their elements. They are made once per batch and commit, never per record.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkstate import errors
from sparkstate.checkpoint.operator_parts import Mode, StoredState
from sparkstate_spec.units import MIB

FIELD: Final = "operatorStateMemoryPerSlot"
"""The manifest's field that sets the limit."""
NOTICE_SHARE: Final = 0.8
"""Of the limit: from here on the job's status says that little is left."""
LOOKS: Final = 64
"""Elements of a list that are weighed."""
_ENTRY: Final = 104
"""Bytes of an entry of a dict at its usual load, without key and value."""
_POINTER: Final = 8


@dataclass(frozen=True)
class OperatorStateSize:
    """A committed operator state in one slot."""

    operator: str
    state: str
    mode: Mode
    elements: int
    """Elements of a list, entries of a map."""
    size_bytes: int
    """An estimate of the memory that it takes."""


class OperatorStateMemory:
    """Of one slot, all operators together. The slot writes while no other user code runs; any thread may read.

    ``limit_bytes`` None: sizes are told, and nothing is refused.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._sizes: dict[str, tuple[OperatorStateSize, ...]] = {}

    def note(self, uid: str, sizes: Sequence[OperatorStateSize]) -> None:
        """The committed states of an operator are of these sizes from now on."""
        self._sizes[uid] = tuple(sizes)

    def sizes(self) -> tuple[OperatorStateSize, ...]:
        """All committed states."""
        return tuple(itertools.chain.from_iterable(list(self._sizes.values())))

    def require(self, uid: str, wanted: Mapping[str, int]) -> None:
        """Raise ``OperatorStateTooLarge`` if there is no room for the states of operator ``uid``, which would take so
        many bytes, by name."""
        if self.limit_bytes is None:
            return
        others = {
            (size.operator, size.state): size.size_bytes for size in self.sizes() if size.operator != uid
        }
        every = {**others, **{(uid, name): size for name, size in wanted.items()}}
        total = sum(every.values())
        if total > self.limit_bytes:
            raise errors.OperatorStateTooLarge(_refusal(every, total, self.limit_bytes))


def _refusal(sizes: Mapping[tuple[str, str], int], total: int, limit: int) -> str:
    (uid, name), largest = max(sizes.items(), key=lambda item: item[1])
    rest = f", all operator state of the slot {_mib(total)}" if len(sizes) > 1 else ""
    enough = math.ceil(total / NOTICE_SHARE / MIB)
    return (
        f"operator {uid!r}: operator state {name!r} would take {_mib(largest)} of memory{rest}; spec.{FIELD} is "
        f"{_mib(limit)}. Nothing is lost: the last checkpoint has the state. Raise {FIELD} to {enough}Mi or more, let "
        "the function keep less, or keep these values in keyed state"
    )


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"


def of_list(values: Sequence[Any]) -> int:
    """Bytes of a list of such values, all of which are judged by evenly spread ones."""
    if not values:
        return 0
    looked = values[:: max(1, len(values) // LOOKS)]
    return (_POINTER + sum(map(of_value, looked)) // len(looked)) * len(values)


def of_entry(key: Any, value: Any) -> int:
    """Bytes of an entry of a map."""
    return _ENTRY + of_value(key) + of_value(value)


def of_stored(stored: StoredState) -> int:
    """Bytes of a state that nobody has declared, which stays encoded."""
    return of_list(stored.keys) + of_list(stored.values)


def of_value(value: Any) -> int:
    """Bytes of a value with everything in it. Objects that several values share are counted each time."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + _of_all(value.keys()) + _of_all(value.values())
    if isinstance(value, (tuple, list, set, frozenset)):
        return size + _of_all(value)
    return size


def _of_all(values: Iterable[Any]) -> int:
    return sum(map(of_value, values))
