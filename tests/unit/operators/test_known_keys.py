"""The keys of an overlay as arrays: what they say as sequences and by key is what one look at each says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkstate.operators.state.known_keys import ListedLongKeys, LongKeys

KEYS = [None, *range(-20, 80, 3)]


def group_of(key: int | None) -> int:
    return 7 if key is None else key % 5


def arrays_of(keys: list[int | None]) -> tuple[Any, Any, Any]:
    valid = np.array([key is not None for key in keys], np.bool_)
    groups = np.array([group_of(key) for key in keys], np.int32)
    return np.array([key or 0 for key in keys], np.int64), valid, groups


def filled(kind: type[LongKeys], keys: list[int | None]) -> LongKeys:
    known = kind()
    known.add_longs(*arrays_of(keys))
    return known


@pytest.mark.parametrize("kind", [LongKeys, ListedLongKeys])
@pytest.mark.parametrize(
    "part", [slice(None), slice(0, 3), slice(1, 4), slice(5, 2), slice(-2, None), slice(0, 9, 2)]
)
def test_a_stretch_of_keys_and_groups_is_one_look_at_each(kind: type[LongKeys], part: slice) -> None:
    known = filled(kind, KEYS)
    numbers = range(len(KEYS))[part]
    assert (
        list(known.keys[part]) == [known.keys[number] for number in numbers] == [KEYS[at] for at in numbers]
    )
    assert list(known.kgs[part]) == [known.kgs[number] for number in numbers]


@pytest.mark.parametrize("kind", [LongKeys, ListedLongKeys])
@pytest.mark.parametrize("count", [0, 1, 5, len(KEYS)])
def test_groups_of_few_and_of_most_keys_are_those_that_came_with_them(
    kind: type[LongKeys], count: int
) -> None:
    known = filled(kind, KEYS)
    asked = KEYS[:count] * 2
    found = known.groups_of(iter(asked))
    assert {key: found[key] for key in asked} == {key: group_of(key) for key in asked}


@pytest.mark.parametrize("kind", [LongKeys, ListedLongKeys])
@pytest.mark.parametrize(
    "keys", [[], [None], [None, None, 0, 0], [0, None, 0], [5, 5, 5, 3, 3, 5, None, 0, 5]], ids=str
)
def test_keys_in_stretches_get_the_numbers_that_they_get_one_by_one(
    kind: type[LongKeys], keys: list[int | None]
) -> None:
    known, beside = filled(kind, [3]), filled(kind, [3])
    arrays = arrays_of(keys)
    assert known.add_stretches(*arrays).tolist() == beside.add_longs(*arrays).tolist()
    assert list(known.keys) == list(beside.keys)
    assert list(known.kgs) == list(beside.kgs)


def test_few_groups_take_no_dict_of_all_keys() -> None:
    assert len(filled(ListedLongKeys, list(range(1000))).groups_of([1, 2])) == 2
