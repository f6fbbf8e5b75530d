"""Copies of what was put out: nothing that is changed later can be seen in them."""

from __future__ import annotations

import array
import copy
import datetime
import uuid
from collections import Counter, UserList, deque, namedtuple
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark.sql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.serde.copies import copied
from sparkstate.serde.row import row_class

Named = namedtuple("Named", ("k", "items"))
PAIR = row_class(("k", "items"))
PLAIN = st.none() | st.integers() | st.text() | st.binary() | st.booleans() | st.dates()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
)


def change(item: Any) -> None:
    """Change everything in it that can be changed."""
    if isinstance(item, (list, tuple)):
        for value in item:
            change(value)
    if isinstance(item, dict):
        for value in item.values():
            change(value)
        item["more"] = 1
    if isinstance(item, list):
        item.append("more")


@given(VALUES)
def test_a_copy_is_equal_and_stays_as_it_was(item: Any) -> None:
    was = copy.deepcopy(item)
    found = copied(item)
    assert found == was
    change(item)
    assert found == was


@pytest.mark.parametrize(
    "row",
    [
        (1, "a"),
        PAIR((1, None)),
        Named(1, 2.5),
        (datetime.date(2026, 1, 1), b"x"),
        (np.int64(1), np.str_("a")),
        7,
        "text",
        None,
        uuid.UUID(int=1),
        pd.Timestamp(0),
        np.float64(1),
    ],
)
def test_a_row_that_nobody_can_change_is_not_copied(row: Any) -> None:
    assert copied(row) is row


@pytest.mark.parametrize("make", [lambda *values: values, lambda *values: PAIR(values), Named])
def test_rows_keep_their_class(make: Any) -> None:
    items = [1]
    row = make("a", items)
    found = copied(row)
    items.append(2)
    assert (type(found), found) == (type(row), ("a", [1]))


def test_rows_of_spark_keep_their_names() -> None:
    items = [1]
    found = copied(pyspark.sql.Row(k="a", items=items))
    without = copied(pyspark.sql.Row("a", items))
    items.append(2)
    assert (found, found.asDict()) == (("a", [1]), {"k": "a", "items": [1]})
    assert (type(without), without) == (tuple, ("a", [1]))


def test_buffers_arrays_and_sets_are_copied() -> None:
    buffer, array, chosen = bytearray(b"ab"), np.arange(3), {1}
    found = copied((buffer, array, chosen, "x"))
    buffer[0], array[0] = 0, 9
    chosen.add(2)
    assert (found[0], found[1].tolist(), found[2]) == (b"ab", [0, 1, 2], {1})


NESTED = np.empty(1, object)
NESTED[0] = [1]


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (deque([1, 2], maxlen=2), pa.list_(pa.int64())),
        (array.array("q", [1, 2]), pa.list_(pa.int64())),
        (UserList([1, 2]), pa.list_(pa.int64())),
        (pd.Series([1, 2]), pa.list_(pa.int64())),
        (memoryview(array.array("q", [1, 2])), pa.list_(pa.int64())),
        (memoryview(bytearray(b"ab")), pa.binary()),
        (np.array(5), pa.int64()),
        (NESTED, pa.list_(pa.list_(pa.int64()))),
        (Counter(a=1), pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, pa.DataType) is False else "",
)
def test_whatever_a_column_takes_and_a_function_can_change_is_copied(item: Any, kind: pa.DataType) -> None:
    was = pa.array([item], kind).to_pylist()
    found = copied((item, 1))
    match item:
        case Counter():
            item["a"] = 9
        case pd.Series():
            item[:] = 9
        case np.ndarray() if item.dtype == object:
            item[0][0] = 9
        case np.ndarray():
            item[()] = 9
        case _:
            item[0] = 9
    assert pa.array([found[0]], kind).to_pylist() == was != pa.array([item], kind).to_pylist()


def test_values_of_a_dict_are_those_of_the_moment() -> None:
    latest = {"a": 1}
    found = copied(("k", latest.values()))
    latest["b"] = 2
    assert found == ("k", [1])
