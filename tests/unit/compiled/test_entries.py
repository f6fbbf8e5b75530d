"""Entries of states in C: nothing beside the arrays is ever read or written."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate.operators.state.compiled_state import CompiledEntries
from sparkstate.operators.state.context import Cursor

records: Any = pytest.importorskip(
    "sparkstate_compiled.records", reason="sparkstate-compiled is not built: `make compiled`"
)


class Handle(records.LongHandle):  # type: ignore[misc]
    """A handle whose Python half says what it was asked."""

    def _value(self) -> Any:
        return "value"

    def _update(self, value: Any) -> None:
        raise LookupError(value)

    def _clear(self) -> None:
        raise LookupError("clear")


def make_handle() -> tuple[Any, Cursor, CompiledEntries]:
    cursor, handle, entries = Cursor(), Handle(), CompiledEntries(records.LongColumns())
    handle.attach(records.Position(cursor, Cursor))
    handle.point(entries.longs)
    return handle, cursor, entries


@given(st.integers(0, 2**32))
def test_a_handle_reads_what_was_written_through_any_growth_of_the_columns(seed: int) -> None:
    chosen = random.Random(seed)
    handle, cursor, entries = make_handle()
    model: list[int | None] = []
    changed: set[int] = set()
    for _ in range(chosen.randrange(200)):
        number = chosen.randrange(-2, len(model) + 2)
        cursor.number = number if chosen.random() < 0.9 else np.int64(number)
        match chosen.randrange(6):
            case 0:
                count = len(model) + chosen.choice([0, 1, 1, 7, 100])
                entries.grow(count)
                model += [None] * (count - len(model))
            case 1 if model:
                numbers = np.array(chosen.sample(range(len(model)), chosen.randrange(1, len(model) + 1)))
                present = np.array([chosen.random() < 0.5 for _ in numbers])
                entries.put(numbers, numbers * 3, present)
                for place, is_present in zip(numbers.tolist(), present.tolist(), strict=True):
                    model[place] = place * 3 if is_present else None
            case _ if not 0 <= number < len(model):
                for call in (handle.value, handle.clear, lambda: handle.update(1)):
                    with pytest.raises(IndexError):
                        call()
            case 2:
                value = chosen.choice([0, -1, 2**63 - 1, -(2**63), chosen.randrange(1000)])
                handle.update(value)
                model[number] = value
                changed.add(number)
            case 3:
                handle.clear()
                if model[number] is not None:
                    changed.add(number)
                model[number] = None
            case _:
                assert handle.value() == model[number]
    assert list(entries.longs) == model
    assert set(entries.changed().tolist()) >= changed
    values, present = entries.get(np.arange(len(model)))
    assert [v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)] == model


def test_what_has_no_place_in_the_columns_is_left_to_python() -> None:
    handle, _, entries = make_handle()
    entries.grow(1)
    for value in (None, True, 1.0, 2**63, -(2**63) - 1, np.int64(1), "1"):
        with pytest.raises(LookupError):
            handle.update(value)
    assert entries.longs[0] is None
    handle.point(None)
    assert handle.value() == "value"
    for call in (handle.clear, lambda: handle.update(1)):
        with pytest.raises(LookupError):
            call()


def test_a_cursor_without_a_number_is_refused() -> None:
    handle, cursor, entries = make_handle()
    entries.grow(1)
    for number in ("0", None, 0.0):
        cursor.number = number  # type: ignore[assignment]
        with pytest.raises(TypeError):
            handle.value()
    for number in (2**70, -(2**70)):
        cursor.number = number
        with pytest.raises((IndexError, OverflowError)):
            handle.value()
    del cursor.number
    with pytest.raises(AttributeError):
        handle.value()
    unattached = Handle()
    unattached.point(entries.longs)
    for call in (unattached.value, unattached.clear, lambda: unattached.update(1)):
        with pytest.raises(AttributeError):
            call()


def test_only_a_cursor_with_slots_is_a_position() -> None:
    class Other:
        __slots__ = ("number",)

    class Slotless:
        number = stamp = 0

    class Both:
        __slots__ = ("number", "stamp")

    records.Position(Both(), Both)
    for cursor, kind, error in (
        (Other(), Cursor, TypeError),
        (Other(), Other, KeyError),
        (Slotless(), Slotless, TypeError),
        (Both(), 5, TypeError),
        (Cursor(), None, TypeError),
    ):
        with pytest.raises(error):
            records.Position(cursor, kind)


def test_arrays_are_kept_as_long_as_the_extension_has_them() -> None:
    longs = records.LongColumns()
    values = np.arange(4)
    longs.refresh(values, np.ones(4, np.uint8), np.zeros(4, np.uint8), 4)
    del values
    gc.collect()
    assert list(longs) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="5 entries"):
        longs.refresh(np.arange(4), np.ones(5, np.uint8), np.zeros(5, np.uint8), 5)
    with pytest.raises(ValueError, match="-1 entries"):
        longs.refresh(np.arange(4), np.ones(5, np.uint8), np.zeros(5, np.uint8), -1)
    for wrong in (np.arange(4.0), np.arange(8)[::2], [1, 2, 3, 4], None):
        with pytest.raises((ValueError, TypeError)):
            longs.refresh(wrong, np.ones(4, np.uint8), np.zeros(4, np.uint8), 4)
    assert list(longs) == [0, 1, 2, 3]
    for place in (4, -1):
        with pytest.raises(IndexError):
            longs[place] = 1
    with pytest.raises(TypeError):
        longs[0] = True
