"""Copies of what was put out: nothing that is changed later can be seen in them."""

from __future__ import annotations

import copy
import datetime
from collections import namedtuple
from typing import Any

import numpy as np
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
    "row", [(1, "a"), PAIR((1, None)), Named(1, 2.5), (datetime.date(2026, 1, 1), b"x"), 7, "text", None]
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


def test_rows_of_spark_are_rows_by_position() -> None:
    items = [1]
    found = copied(pyspark.sql.Row(k="a", items=items))
    items.append(2)
    assert found == ("a", [1])


def test_buffers_arrays_and_sets_are_copied() -> None:
    buffer, array, chosen = bytearray(b"ab"), np.arange(3), {1}
    found = copied((buffer, array, chosen, "x"))
    buffer[0], array[0] = 0, 9
    chosen.add(2)
    assert (found[0], found[1].tolist(), found[2]) == (b"ab", [0, 1, 2], {1})
