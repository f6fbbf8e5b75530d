"""The keys that an overlay knows, numbered in the order in which they came: as Python objects, or as an array."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from sparkstate.backends import value_columns
from sparkstate.backends.long_index import LongIndex, Longs
from sparkstate.backends.value_columns import KeyGroups

Numbers: TypeAlias = npt.NDArray[np.int64]
NULL_KEY: Final = 0
"""The null key's number in ``LongKeys``."""


class KnownKeys(Protocol):
    """Keys and their key groups by number. A number is valid as long as the object is the overlay's."""

    @property
    def keys(self) -> Sequence[Any]:
        """The keys by number."""

    @property
    def kgs(self) -> Sequence[int]:
        """Their key groups."""

    @property
    def objects(self) -> Sequence[Any]:
        """The Python objects that are held for them."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without those objects."""

    def __len__(self) -> int:
        """How many numbers there are."""

    def number_of(self, key: Any) -> int:
        """The number of a key that is known."""

    def numbers_of(self, keys: Sequence[Any]) -> Numbers:
        """The numbers of many such keys."""

    def groups_of(self, keys: Iterable[Any]) -> dict[Any, int]:
        """The key groups of these known keys, by key; perhaps of others, too."""

    def add(self, keys: Sequence[Any], kgs: Sequence[int]) -> list[int]:
        """The numbers of these keys; new ones get the next numbers."""

    def group_array(self, first: int = 0) -> KeyGroups:
        """The key groups as an array, from this number on."""

    def long_array(self, numbers: Numbers) -> Longs | None:
        """Keys as an array; None if one of them has no place in it."""


class ObjectKeys:
    """Keys of any type, found by a dict."""

    def __init__(self) -> None:
        self._numbers: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
        self.keys: list[Any] = []
        self.kgs: list[int] = []

    @property
    def objects(self) -> Sequence[Any]:
        return self.keys

    @property
    def nbytes(self) -> int:
        return sum(map(sys.getsizeof, (self._numbers, self.keys, self.kgs))) + 32 * len(self.kgs)

    def __len__(self) -> int:
        return len(self.keys)

    def number_of(self, key: Any) -> int:
        return self._numbers[key]

    def numbers_of(self, keys: Sequence[Any]) -> Numbers:
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))

    def groups_of(self, keys: Iterable[Any]) -> dict[Any, int]:
        return dict(zip(self.keys, self.kgs, strict=True))

    def add(self, keys: Sequence[Any], kgs: Sequence[int]) -> list[int]:
        before = len(self.keys)
        numbers = list(map(self._numbers.__getitem__, keys))
        if new := len(self._numbers) - before:
            # A dict keeps its order of insertion: the new keys are its last ones.
            self.keys += list(itertools.islice(reversed(self._numbers), new))[::-1]
            self.kgs += _groups_of_new(np.asarray(numbers), kgs, before, new).tolist()
        return numbers

    def group_array(self, first: int = 0) -> KeyGroups:
        return np.array(self.kgs[first:], np.int32)

    def long_array(self, numbers: Numbers) -> Longs | None:
        return value_columns.long_keys(list(map(self.keys.__getitem__, numbers.tolist())))


class LongKeys:
    """Whole numbers, found by an index of arrays. ``NULL_KEY`` is the null key's number, whether it came or not."""

    def __init__(self, expected: int = 0) -> None:
        """``expected``: about how many keys will come."""
        self._index = LongIndex(expected)
        self._groups: KeyGroups = np.full(max(32, expected + 1), -1, np.int32)

    # Made anew for each who asks: kept here they would be a cycle, and the arrays would wait for the garbage collector,
    # which counts objects and not their bytes.

    @property
    def keys(self) -> Sequence[Any]:
        return _ObjectColumn(self, self._key, self._keys_from)

    @property
    def kgs(self) -> Sequence[int]:
        return _ObjectColumn(self, self._group, lambda start, end: self.group_array()[start:end].tolist())

    def __len__(self) -> int:
        return self._index.count + 1

    @property
    def has_null(self) -> bool:
        """Whether the null key came."""
        return int(self._groups[NULL_KEY]) >= 0

    def _key(self, number: int) -> Any:
        return int(self._index.keys[number - 1]) if number else None

    def _keys_from(self, start: int, end: int) -> list[Any]:
        keys: list[Any] = self._index.keys[max(0, start - 1) : max(0, end - 1)].tolist()
        return keys if start or not end else [None, *keys]

    def _group(self, number: int) -> int:
        return int(self._groups[number])

    @property
    def objects(self) -> Sequence[Any]:
        return ()

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._groups.nbytes

    def number_of(self, key: Any) -> int:
        return int(self.numbers_of([key])[0])  # 10 µs: a loop over many keys asks ``numbers_of`` once

    def numbers_of(self, keys: Sequence[Any]) -> Numbers:
        longs, valid = _longs(keys)
        return np.where(valid, self._index.find(longs).astype(np.int64) + 1, NULL_KEY)

    def groups_of(self, keys: Iterable[Any]) -> dict[Any, int]:
        # Only these: a dict of all keys takes ten times the memory that their arrays do, which nothing has weighed.
        asked = list(dict.fromkeys(keys))
        return dict(zip(asked, self._groups[self.numbers_of(asked)].tolist(), strict=True))

    def add(self, keys: Sequence[Any], kgs: Sequence[int]) -> list[int]:
        return self.add_longs(*_longs(keys), np.asarray(kgs, np.int32)).tolist()  # type: ignore[no-any-return]

    def add_longs(
        self, keys: Longs, valid: value_columns.Flags, kgs: KeyGroups, each_once: bool = False
    ) -> Numbers:
        """The numbers of these keys, of which those that are not ``valid`` are null. ``each_once``: all of
        these keys differ."""
        if not valid.all():
            numbers = np.full(len(keys), NULL_KEY, np.int64)
            numbers[valid] = self.add_longs(keys[valid], valid[valid], kgs[valid], each_once)
            self._groups[NULL_KEY] = kgs[~valid][-1]
            return numbers
        before = len(self)
        numbers = self._index.places(keys, each_once).astype(np.int64) + 1
        if new := len(self) - before:
            if len(self) > len(self._groups):
                self._groups = np.resize(self._groups, 2 * len(self))
            self._groups[before : len(self)] = _groups_of_new(numbers, kgs, before, new)
        return numbers

    def add_stretches(self, keys: Longs, valid: value_columns.Flags, kgs: KeyGroups) -> Numbers:
        """As ``add_longs``, for keys whose rows come together: each stretch of them is looked for once."""
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | (valid[1:] != valid[:-1])
        numbers = self.add_longs(keys[begins], valid[begins], kgs[begins])
        stretches: Numbers = numbers[np.cumsum(begins) - 1]
        return stretches

    def group_array(self, first: int = 0) -> KeyGroups:
        return self._groups[first : len(self)]

    def long_array(self, numbers: Numbers) -> Longs | None:
        return None if (numbers == NULL_KEY).any() else self._index.keys[numbers - 1]


class ListedLongKeys(LongKeys):
    """The same for functions called per record, which ask for single keys: keys and key groups are lists as well."""

    def __init__(self, expected: int = 0) -> None:
        super().__init__(expected)
        self._keys: list[Any] = [None]
        self._kgs: list[int] = [-1]
        self._numbers: dict[Any, int] = {}
        """Of the keys up to the one that was asked for last: most overlays are never asked."""

    @property
    def keys(self) -> Sequence[Any]:
        return self._keys

    @property
    def kgs(self) -> Sequence[int]:
        return self._kgs

    @property
    def objects(self) -> Sequence[Any]:
        return self._keys

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(map(sys.getsizeof, (self._keys, self._kgs, self._numbers)))

    def groups_of(self, keys: Iterable[Any]) -> dict[Any, int]:
        asked = dict.fromkeys(keys)
        if 2 * len(asked) < len(self):
            return super().groups_of(asked)
        return dict(
            zip(self._keys, self._kgs, strict=True)
        )  # a fifth of the time that looking for each takes

    def number_of(self, key: Any) -> int:
        known, keys = self._numbers, self._keys
        if len(known) < len(keys):
            known.update(zip(keys[len(known) :], range(len(known), len(keys)), strict=True))
        return known[key]

    def add_longs(
        self, keys: Longs, valid: value_columns.Flags, kgs: KeyGroups, each_once: bool = False
    ) -> Numbers:
        before = len(self)
        numbers = super().add_longs(keys, valid, kgs, each_once)
        if len(self) > len(self._keys):
            self._keys += self._index.keys[before - 1 :].tolist()
            self._kgs += self.group_array(before).tolist()
        self._kgs[NULL_KEY] = self._group(NULL_KEY)
        return numbers


class _ObjectColumn(Sequence[Any]):
    """A column of ``of`` as a sequence of Python objects, which grows with it."""

    def __init__(
        self, of: LongKeys, one: Callable[[int], Any], stretch: Callable[[int, int], list[Any]]
    ) -> None:
        self._of = of
        self._one = one
        self._stretch = stretch

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        if not isinstance(number, slice):
            return self._one(number)
        start, end, step = number.indices(len(self))
        return self._stretch(start, end) if step == 1 else list(self)[number]

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stretch(0, len(self)))


def _longs(keys: Sequence[Any]) -> tuple[Longs, value_columns.Flags]:
    """The keys as an array, and which of them are not null."""
    valid = np.fromiter((key is not None for key in keys), np.bool_, len(keys))
    return np.fromiter((key or 0 for key in keys), np.int64, len(keys)), valid


def _groups_of_new(numbers: Numbers, kgs: Sequence[int] | KeyGroups, before: int, new: int) -> KeyGroups:
    """The key groups of the keys numbered ``before`` and up, of which there are ``new``, in their order."""
    places = numbers - before
    is_new = places >= 0
    found = np.empty(new, np.int32)
    found[places[is_new]] = np.asarray(kgs)[is_new]
    return found
