"""The index of 64-bit keys is a dict of places, whatever the keys collide with."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.backends.long_index import LongIndex, PairIndex, pairs

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
BATCHES = st.lists(st.lists(LONGS, max_size=60), max_size=8)


@given(BATCHES, st.lists(LONGS, max_size=30), st.integers(0, 300), st.booleans())
def test_places_are_given_in_the_order_in_which_keys_appear(batches, others, expected, each_once):
    index, places = LongIndex(expected), {}
    for given_keys in batches:
        batch = list(dict.fromkeys(given_keys)) if each_once else given_keys
        for key in batch:
            places.setdefault(key, len(places))
        assert index.places(np.array(batch, np.int64), each_once).tolist() == [places[key] for key in batch]
        assert index.count == len(places)
        assert index.keys.tolist() == list(places)
    asked = [*others, *places]
    assert index.find(np.array(asked, np.int64)).tolist() == [places.get(key, -1) for key in asked]


@pytest.mark.parametrize(
    "keys",
    [
        np.arange(200_000),
        np.arange(200_000) * 4096,
        np.arange(200_000) << 40,
        np.arange(200_000) * np.int64(-7919),
        np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 200_000),
    ],
    ids=["dense", "in steps", "in the high bits", "negative", "random"],
)
def test_keys_at_even_distances_do_not_crowd(keys):
    index = LongIndex()
    for start in range(0, len(keys), 30_000):
        index.add(keys[start : start + 30_000])
    assert (index.find(keys) == np.arange(len(keys))).all()
    # At half load and less, keys that are spread by chance lie 0.4 steps from their homes on average.
    homes, last = index._homes(keys), len(index._cells) - 1
    open_keys, steps = np.arange(len(keys)), np.zeros(len(keys), np.int64)
    while len(open_keys):
        cells = (homes[open_keys] + steps[open_keys] * (steps[open_keys] + 1) // 2) & last
        open_keys = open_keys[index._cells[cells] != open_keys]
        steps[open_keys] += 1
    assert steps.mean() < 0.6
    assert steps.max() < 30
    assert index.nbytes < 40 * len(keys)


def test_an_index_that_expects_its_keys_does_not_grow(monkeypatch):
    index = LongIndex(10_000)
    monkeypatch.delattr(LongIndex, "_clear")
    before = index.nbytes
    index.add(np.arange(10_000))
    assert index.nbytes == before
    with pytest.raises(AttributeError):
        index.add(np.arange(10_000, 30_000))


@pytest.mark.parametrize("expected", [0, 1, 5000])
def test_an_empty_index_finds_nothing(expected):
    index = LongIndex(expected)
    assert index.find(np.array([0, 1], np.int64)).tolist() == [-1, -1]
    assert index.places(np.empty(0, np.int64)).tolist() == []


def test_a_larger_index_is_made_in_its_own_memory():
    index, keys = LongIndex(), np.arange(2_000_000) * 7919
    tracemalloc.start()
    try:
        index.add(keys)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * index.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("index_type", [LongIndex, PairIndex])
def test_the_last_few_keys_are_found_without_a_step_of_all_arrays_for_each_cell(index_type, monkeypatch):
    """Of 100 keys one or two lie ten cells from home: so many steps took longer than the other keys together."""
    rng, steps, next_cells = np.random.default_rng(1), [], LongIndex._next
    keys, others = rng.integers(-(2**63), 2**63 - 1, (2, 32_000))
    if index_type is PairIndex:
        keys, others = pairs(keys, others), pairs(others, keys)
    index = index_type()
    index.add(keys)
    monkeypatch.setattr(
        LongIndex,
        "_next",
        lambda self, cells, step: steps.append(len(cells)) or next_cells(self, cells, step),
    )
    for start in range(0, 2000, 100):
        part = slice(start, start + 100)
        assert index.find(keys[part]).tolist() == list(range(start, start + 100))
        assert (index.find(others[part]) == -1).all()
    assert len(steps) < 3 * 40
