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


@given(BATCHES, st.lists(LONGS, max_size=30), st.integers(0, 300))
def test_places_are_given_in_the_order_in_which_keys_appear(batches, others, expected):
    index, places = LongIndex(expected), {}
    for batch in batches:
        for key in batch:
            places.setdefault(key, len(places))
        assert index.places(np.array(batch, np.int64)).tolist() == [places[key] for key in batch]
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
    # Linear probing at half load looks into 1.5 cells on average when keys are spread by chance.
    homes = index._homes(keys)
    cells = np.empty(len(keys), np.int64)
    used = np.flatnonzero(index._cells >= 0)
    cells[index._cells[used]] = used
    steps = (cells - homes) % len(index._cells)
    assert steps.mean() < 1
    assert steps.max() < 100
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
    rng, steps, step = np.random.default_rng(1), [], LongIndex._next
    keys, others = rng.integers(-(2**63), 2**63 - 1, (2, 32_000))
    if index_type is PairIndex:
        keys, others = pairs(keys, others), pairs(others, keys)
    index = index_type()
    index.add(keys)
    monkeypatch.setattr(LongIndex, "_next", lambda self, cells: steps.append(len(cells)) or step(self, cells))
    for start in range(0, 2000, 100):
        part = slice(start, start + 100)
        assert index.find(keys[part]).tolist() == list(range(start, start + 100))
        assert (index.find(others[part]) == -1).all()
    assert len(steps) < 3 * 40
