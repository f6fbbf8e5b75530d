"""Columns are a dict of values, and their views stay as they were, whatever is written later."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.backends import value_columns
from sparkstate.backends.hashmap.layered_columns import LayeredColumns
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.serde import scalars

KEYS = st.integers(-3, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.dictionaries(KEYS, st.none() | st.integers(-9, 9), max_size=5)),
        st.tuples(st.just("freeze"), st.none()),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("fold"), st.none()),
    ),
    max_size=40,
)
ALL = np.arange(-4, 5)


def group(key):
    return key % 3


def columns_of(changes):
    keys = np.array(list(changes), np.int64)
    groups = np.array([group(key) for key in changes], np.int32)
    return ValueColumns(keys, groups, *value_columns.to_columns(list(changes.values()), np.int64))


def content(parts):
    pairs, found = [], {}
    for live in parts:
        assert live.present.all()
        assert len(live)
        assert live.key_groups.tolist() == [group(key) for key in live.keys.tolist()]
        pairs += zip(live.key_groups.tolist(), live.keys.tolist(), strict=True)
        found |= dict(zip(live.keys.tolist(), live.values.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    return found


@given(STEPS)
def test_layered_columns_are_a_dict_and_their_views_are_copies(steps):
    layered, plain, views = LayeredColumns(np.int64), {}, []
    for step, argument in steps:
        if step == "write":
            layered.write(columns_of(argument))
            plain |= argument
            plain = {key: value for key, value in plain.items() if value is not None}
        elif step == "freeze":
            views.append((layered.freeze(), dict(plain)))
        elif step == "release" and argument < len(views):
            views.pop(argument)[0].release()
        elif step == "fold":
            layered.fold()
        assert value_columns.to_objects(*layered.read(ALL)) == [plain.get(key) for key in ALL.tolist()]
        assert content(layered.live()) == plain
        assert layered.estimated_len() >= len(plain)
        assert all(content(view.live(many)) == copied for view, copied in views for many in (1, 3, 100))
    for view, _ in views:
        view.release()
    layered.fold()
    assert layered.estimated_len() == len(plain)
    assert content(layered.live()) == plain


def test_deleted_entries_give_their_memory_back():
    layered = LayeredColumns(np.int64)
    keys = np.arange(100_000)
    groups, values = np.zeros(len(keys), np.int32), keys * 2
    layered.write(ValueColumns(keys, groups, values, np.ones(len(keys), np.bool_)))
    full = layered.nbytes
    layered.write(ValueColumns(keys, groups, values, keys < 100))
    assert layered.estimated_len() == 100
    assert layered.nbytes < full / 50
    found, present = layered.read(keys)
    assert (present == (keys < 100)).all()
    assert (found[present] == values[present]).all()


def test_freezing_moves_no_entry_and_folding_moves_only_those_written_since():
    layered = LayeredColumns(np.int64)
    keys = np.arange(1000)
    layered.write(ValueColumns(keys, keys.astype(np.int32), keys, np.ones(1000, np.bool_)))
    base = layered.top
    view = layered.freeze()
    assert view._layers == (base,)
    layered.write(columns_of({5: 7}))
    assert layered.top.index.count == 1
    view.release()
    layered.write(columns_of({6: 8}))
    assert layered.top is base
    assert layered.read(np.array([4, 5, 6]))[0].tolist() == [4, 7, 8]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1, None, -(2**63)], np.int64), ([0.5, -0.0, None], np.float64), ([True, None, False], np.bool_)],
)
def test_objects_survive_the_way_through_columns(values, dtype):
    back = value_columns.to_objects(*value_columns.to_columns(values, dtype))
    assert [(type(value), repr(value)) for value in back] == [(type(value), repr(value)) for value in values]


def test_every_nan_is_the_one_that_dicts_find():
    (found,) = value_columns.to_objects(*value_columns.to_columns([float("nan")], np.float64))
    assert found is scalars.NAN


def test_a_view_is_read_in_much_less_memory_than_it_has():
    layered = LayeredColumns(np.int64)
    keys = np.arange(4_000_000)
    for part in np.array_split(keys, 40):
        layered.write(ValueColumns(part, (part % 64).astype(np.int32), part, np.ones(len(part), np.bool_)))
    below, few = layered.freeze(), keys[:1000]
    layered.write(ValueColumns(few, (few % 64).astype(np.int32), few + 1, np.ones(len(few), np.bool_)))
    view = layered.freeze()
    tracemalloc.start()
    try:
        assert sum(int(part.values.sum()) for part in view.live(50_000)) == int(keys.sum()) + 1000
        assert tracemalloc.get_traced_memory()[1] < layered.nbytes / 4
    finally:
        tracemalloc.stop()
    below.release()


def test_a_view_leaves_the_layers_as_they_are_because_somebody_may_be_reading():
    """An index that grows is empty for a moment: its reader would find no key, and the job would begin anew."""
    layered = LayeredColumns(np.int64)
    layered.write(columns_of(dict.fromkeys(range(1000), 7)))
    view = layered.freeze()
    layered.write(columns_of(dict.fromkeys(range(1000, 5000), 8)))
    view.release()
    base = layered._frozen[0]
    counted = base.index.count
    layered.freeze()
    assert layered._frozen[0] is base
    assert base.index.count == counted == 1000
    values, present = layered.read(np.array([5, 4000]))
    assert (values.tolist(), present.tolist()) == ([7, 8], [True, True])


def test_layers_do_not_pile_up_above_a_view_that_is_held_for_long():
    layered = LayeredColumns(np.int64)
    layered.write(columns_of(dict.fromkeys(range(100), 0)))
    long_one = layered.freeze()
    for number in range(1, 51):
        layered.write(columns_of({number: number, 100 - number: None}))
        layered.freeze().release()
    layered.write(columns_of({1: 7}))
    assert len(layered._frozen) == 1
    assert layered.estimated_len() <= 200
    assert content(long_one.live()) == dict.fromkeys(range(100), 0)
    assert content(layered.live()) == {0: 0, 1: 7} | {n: n for n in range(2, 50)}
    long_one.release()
    layered.write(columns_of({2: None}))
    assert layered.is_flat
    assert content(layered.live()) == {0: 0, 1: 7} | {n: n for n in range(3, 50)}
