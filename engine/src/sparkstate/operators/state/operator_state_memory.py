"""The memory that operator state may take in a slot, and the sizes that count against it.

Operator state lies in the heap of the slot's Python process, so nothing but the kernel would bound it, and the kernel
ends the process without a word. Every object is weighed once, with the batch or the commit that brought it, never per
record. Of a map's changes a sample is weighed after each batch, and all of them before anything is refused and at the
end of the epoch: a sample of values of unlike sizes may be off by any factor.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkstate import errors
from sparkstate.checkpoint.operator_parts import Mode, StoredState
from sparkstate_spec.units import MIB

FIELD: Final = "operatorStateMemoryPerSlot"
"""The manifest's field that sets the limit."""
NOTICE_SHARE: Final = 0.8
"""Of the limit: from here on the job's status says that little is left."""
_ENTRY: Final = 104
"""Bytes of an entry of a dict at its usual load, without key and value."""
_POINTER: Final = 8
_CONTAINERS: Final = (dict, tuple, list, set, frozenset)


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
        self._wanted: dict[str, dict[str, int]] = {}
        """Bytes of the states that an operator's open epoch would leave, by the operator's uid: all commit together."""

    def note(self, uid: str, sizes: Sequence[OperatorStateSize]) -> None:
        """The committed states of an operator are of these sizes from now on."""
        self._sizes[uid] = tuple(sizes)
        self._wanted.pop(uid, None)

    def sizes(self) -> tuple[OperatorStateSize, ...]:
        """All committed states."""
        return tuple(itertools.chain.from_iterable(list(self._sizes.values())))

    def has_room(self, uid: str, wanted: Mapping[str, int]) -> bool:
        """Whether there is room for the states of operator ``uid``, which would take so many bytes, by name."""
        if self.limit_bytes is None:
            return True
        return sum(self._with(uid, wanted).values()) <= self.limit_bytes

    def require(self, uid: str, wanted: Mapping[str, int]) -> None:
        """Keep room for these states until they are committed, or raise ``OperatorStateTooLarge``."""
        if not self.has_room(uid, wanted):
            assert self.limit_bytes is not None
            raise errors.OperatorStateTooLarge(_refusal(self._with(uid, wanted), self.limit_bytes))
        self._wanted[uid] = dict(wanted)

    def _with(self, uid: str, wanted: Mapping[str, int]) -> dict[tuple[str, str], int]:
        """Bytes by operator and state, if ``uid`` had these states."""
        committed = {(size.operator, size.state): size.size_bytes for size in self.sizes()}
        open_ = {**self._wanted, uid: wanted}
        return {
            **{name: size for name, size in committed.items() if name[0] not in open_},
            **{(one, name): size for one, states in open_.items() for name, size in states.items()},
        }


def _refusal(sizes: Mapping[tuple[str, str], int], limit: int) -> str:
    total = sum(sizes.values())
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
    """Bytes of a list of such values."""
    return _POINTER * len(values) + _of_all(values)


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
    if isinstance(value, _CONTAINERS):
        return size + _of_all(value)
    return size


def _of_all(values: Collection[Any]) -> int:
    # Most are numbers, texts and bytes, and one look at all types is faster than a call for each value.
    has_parts = any(issubclass(kind, _CONTAINERS) for kind in set(map(type, values)))
    return sum(map(of_value if has_parts else sys.getsizeof, values))
