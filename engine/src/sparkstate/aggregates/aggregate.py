"""The contract of an aggregate: accumulators in parts, each part a state of its own.

Accumulators are arrays, one per part, with an entry for each group (a key and its slice, or a key and its window); null
where a group has no accumulator. ``codes`` gives the number of each row's group, from 0 to ``count`` - 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import errors
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types

Codes: TypeAlias = npt.NDArray[np.int64]
Accumulators: TypeAlias = list[pa.Array]


@dataclass(frozen=True)
class Part:
    """One field of an accumulator, by its name within the aggregate."""

    name: str
    type: TypeInformation


@dataclass(frozen=True)
class Rows:
    """The rows of a call: the group of each row, how many groups there are, the values, the event times in ms."""

    codes: Codes
    count: int
    values: pa.Array
    times: npt.NDArray[np.int64]


class Aggregate(ABC):
    """How values become an accumulator, and accumulators a result. Frozen: it travels to the slots."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The fields of an accumulator."""

    @property
    def options(self) -> str:
        """SQL text behind the argument. Two aggregates that differ in it must not share state."""
        return ""

    @abstractmethod
    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        """The accumulators after these rows; ``before`` has one entry for each group."""

    @abstractmethod
    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        """One accumulator for each group of accumulators; those of a group come in the order of their slices."""

    def too_large(self, parts: Accumulators, codes: Codes, count: int) -> npt.NDArray[np.bool_]:
        """The groups for which ``merge`` raises ``OverflowError``."""
        return np.zeros(count, np.bool_)

    @abstractmethod
    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        """The value of each accumulator; ``rows`` is the number of its group's rows."""


class AdditiveAggregate(Aggregate):
    """One whose accumulators whole numbers, its *terms*, may stand for: those of a merge are the sums of those of its
    parts, and no sum over the slices of a window is too large for 64 bits."""

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...] | None:
        """Names of the terms. None: there are no such numbers for values of this type."""

    @abstractmethod
    def to_terms(self, parts: Accumulators) -> list[npt.NDArray[np.int64]]:
        """The terms of accumulators, 0 where there is none."""

    @abstractmethod
    def of_terms(self, terms: list[npt.NDArray[np.int64]]) -> Accumulators:
        """The inverse. Raises ``OverflowError`` where a result would not fit and is checked."""


def state_type(kind: pa.DataType) -> TypeInformation:
    """The type of a state that holds values of an Arrow type. Raises ``SpecInvalid`` where none does."""
    checks: Sequence[tuple[Any, TypeInformation]] = (
        (pa.types.is_boolean, Types.BOOLEAN()),
        (pa.types.is_integer, Types.LONG()),
        (pa.types.is_floating, Types.DOUBLE()),
        (pa.types.is_decimal, Types.BIG_DEC()),
        (pa.types.is_string, Types.STRING()),
        (pa.types.is_large_string, Types.STRING()),
        (pa.types.is_date32, Types.SQL_DATE()),
        (pa.types.is_binary, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (pa.types.is_large_binary, Types.PRIMITIVE_ARRAY(Types.BYTE())),
    )
    if pa.types.is_timestamp(kind):
        return Types.INSTANT() if kind.tz else Types.SQL_TIMESTAMP()
    for is_kind, found in checks:
        if is_kind(kind):
            return found
    raise errors.SpecInvalid(f"values of type {kind} cannot be aggregated in a window")


def numbers(array: pa.Array, dtype: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """A copy of the values, 0 where there is none, and whether there is one."""
    present = array.is_valid().to_numpy(zero_copy_only=False)
    filled = array.fill_null(pa.scalar(0).cast(array.type)) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False).astype(dtype), present


def to_array(values: Any, present: npt.NDArray[np.bool_], kind: pa.DataType | None = None) -> pa.Array:
    """The inverse of ``numbers``."""
    return pa.array(values, kind, mask=None if present.all() else ~present)


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    """Two arrays as one, of the first one's type."""
    return pa.concat_arrays([first, second.cast(first.type)])
