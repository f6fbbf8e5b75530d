"""Row keys: the fast ways give what ``composite`` gives, and everything can be read back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.backends import long_index, timer_columns
from sparkstate.backends.base import NamespacedCell, StateKind, TableChanges, TableSpec, Timer
from sparkstate.backends.rocksdb import layout
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.serde import composite
from sparkstate.serde.types import Types

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(), max_size=6)
KEY_GROUPS = st.integers(0, 32767)
NAMESPACES = st.none() | TEXTS | LONGS | st.tuples(LONGS, TEXTS)


def spec_of(key_type, kind=StateKind.VALUE):
    return TableSpec("op", "state", kind, key_type, Types.LONG())


def composite_row(key_type, kg, cell):
    key, namespace = (cell.key, cell.namespace) if type(cell) is NamespacedCell else (cell, None)
    encoded = composite.key_codec(key_type).encode(key)
    return composite.encode_key_group(kg) + encoded + composite.NAMESPACES.encode(namespace)


def cells_of(keys):
    plain = keys | st.none()
    return st.lists(st.tuples(KEY_GROUPS, plain | st.builds(NamespacedCell, plain, NAMESPACES)), max_size=6)


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.LONG(), LONGS),
        (Types.STRING(), TEXTS),
        (Types.BOOLEAN(), st.booleans()),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), st.tuples(LONGS, TEXTS)),
    ],
    ids=["long", "string", "boolean", "tuple"],
)
@given(data=st.data())
def test_rows_made_at_once_are_the_rows_made_one_by_one(key_type, keys, data):
    entries = data.draw(cells_of(keys))
    codec = layout.RowCodec(spec_of(key_type))
    rows = codec.rows([kg for kg, _ in entries], [cell for _, cell in entries])
    assert rows == [composite_row(key_type, kg, cell) for kg, cell in entries]
    assert rows == [codec.row(kg, cell) for kg, cell in entries]


@pytest.mark.parametrize("odd", [(), (None,), (NamespacedCell(1, "n"),)], ids=["keys", "null", "namespace"])
@given(first=st.integers(-(2**63), 2**63 - 1 - 100), kgs=st.lists(KEY_GROUPS, min_size=101, max_size=101))
def test_rows_of_many_whole_numbers_are_the_rows_made_one_by_one(odd, first, kgs):
    cells = [*range(first, first + 100), *odd]
    codec = layout.RowCodec(spec_of(Types.LONG()))
    assert codec.rows(kgs[: len(cells)], cells) == list(map(codec.row, kgs, cells))


@given(rows=st.lists(st.binary(max_size=2), max_size=5))
def test_rows_have_no_places_where_they_are_in_order(rows):
    order = layout.row_order(rows)
    assert (order is None) == (rows == sorted(rows))
    assert sorted(rows) == [rows[place] for place in (range(len(rows)) if order is None else order)]


@given(timers=st.lists(st.tuples(LONGS, LONGS, KEY_GROUPS), max_size=6))
def test_rows_of_timers_made_at_once_are_the_rows_made_one_by_one(timers):
    stamps, keys = (np.array([timer[at] for timer in timers], np.int64) for at in (0, 1))
    groups = np.array([group for _, _, group in timers], np.int32)
    rows = layout.timer_rows(timer_columns.registered(stamps, keys, groups))
    codec = layout.RowCodec(spec_of(Types.LONG(), StateKind.EVENT_TIMERS))
    assert rows == [codec.timer_row(Timer(*timer)) for timer in timers]
    again = layout.timers_of(rows)
    found = (again.timestamps.tolist(), again.keys.tolist(), again.key_groups.tolist())
    assert list(zip(*found, strict=True)) == timers


@given(key=LONGS | st.none(), namespace=NAMESPACES, beside=st.booleans())
def test_timers_of_null_keys_and_namespaces_have_no_place_in_columns(key, namespace, beside):
    codec = layout.RowCodec(spec_of(Types.LONG(), StateKind.EVENT_TIMERS))
    rows = [codec.timer_row(Timer(3, key, 1, namespace))] + beside * [codec.timer_row(Timer(4, 7, 1))]
    assert (layout.timers_of(rows) is None) == (key is None or namespace is not None)


def test_a_lone_surrogate_is_a_key_like_any_other():
    codec = layout.RowCodec(spec_of(Types.STRING()))
    assert codec.rows([1, 1], ["\ud800", "a\x00b"]) == [codec.row(1, "\ud800"), codec.row(1, "a\x00b")]


@given(kg=KEY_GROUPS, key=TEXTS, namespace=NAMESPACES, sub=st.binary(max_size=5))
def test_a_row_is_split_where_it_was_joined(kg, key, namespace, sub):
    codec = layout.RowCodec(spec_of(Types.STRING()))
    found = codec.split(codec.row(kg, NamespacedCell(key, namespace)) + sub)
    assert found == (
        kg,
        composite.key_codec(Types.STRING()).encode(key),
        composite.NAMESPACES.encode(namespace),
        sub,
    )


@given(stamp=LONGS, key=TEXTS, kg=KEY_GROUPS, namespace=NAMESPACES)
def test_a_timer_is_read_back_from_its_row(stamp, key, kg, namespace):
    codec = layout.RowCodec(spec_of(Types.STRING(), StateKind.EVENT_TIMERS))
    made = Timer(stamp, key, kg, namespace)
    assert codec.timer(codec.timer_row(made)) == made


@given(first=LONGS, second=LONGS)
def test_rows_of_timers_are_in_the_order_of_time(first, second):
    codec = layout.RowCodec(spec_of(Types.LONG(), StateKind.EVENT_TIMERS))
    rows = [codec.timer_row(Timer(stamp, 0, 0)) for stamp in (first, second)]
    assert (rows[0] < rows[1]) == (first < second)


def test_the_limit_is_rocksdbs_and_the_message_names_state_and_key():
    assert layout.ROW_LIMIT == 2**31 - 1
    spec = spec_of(Types.LONG())
    layout.check_lengths(spec, [1], [b"k"], [b"v" * 10], limit=10)
    with pytest.raises(
        errors.StateError, match="'state' of operator 'op', key 42: an encoded value has 11 bytes"
    ):
        layout.check_lengths(spec, [1, 42], [b"k", b"k"], [b"v", b"v" * 11], limit=10)
    with pytest.raises(errors.StateError, match="an encoded key has 12 bytes"):
        layout.check_lengths(spec, [1], [b"k" * 12], [b"v"], limit=10)


@pytest.mark.parametrize("has_spaces", [False, True], ids=["keys", "keys-and-namespaces"])
@given(entries=st.dictionaries(st.tuples(LONGS, LONGS), KEY_GROUPS, max_size=20), size=st.integers(1, 8))
def test_columns_are_written_in_the_order_of_their_rows(has_spaces, entries, size):
    if not has_spaces:
        entries = {(key, 0): group for (key, _), group in entries.items()}
    keys, spaces = (np.array([pair[at] for pair in entries], np.int64) for at in (0, 1))
    given_keys = long_index.pairs(keys, spaces) if has_spaces else keys
    groups = np.array(list(entries.values()), np.int32)
    columns = ValueColumns(given_keys, groups, np.arange(len(groups)), np.ones(len(groups), np.bool_))
    field = "pairs" if has_spaces else "columns"
    parts = [
        getattr(part, field)
        for part in TableChanges(spec_of(Types.LONG()), **{field: columns}).column_parts(size)
    ]
    rows = [layout.long_rows(part.key_groups, part.keys) for part in parts]
    written = list(itertools.chain.from_iterable(rows))
    assert written == sorted(layout.long_rows(groups, given_keys))
    assert sorted(value for part in parts for value in part.values.tolist()) == list(range(len(groups)))
    assert all(len(part) <= size for part in parts)
