"""The copy-on-write dict and the timers in memory: views stay as they were, whatever is written later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkstate.backends import canonical
from sparkstate.backends.base import StateKind, TableSpec, Timer
from sparkstate.backends.heap_timers import HeapTimerTable, rows
from sparkstate.backends.layered_dict import ABSENT, LayeredDict, View
from sparkstate.serde.types import Types

SPEC = TableSpec("op", "timers", StateKind.EVENT_TIMERS, Types.STRING())

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers()),
        st.tuples(st.just("delete"), st.integers(0, 5), st.none()),
        st.tuples(st.just("freeze"), st.none(), st.none()),
        st.tuples(st.just("release"), st.integers(0, 3), st.none()),
        st.tuples(st.just("fold"), st.none(), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_a_layered_dict_is_a_dict_and_its_views_are_copies(steps):
    layered, plain, views = LayeredDict(), {}, []
    for step, key, value in steps:
        if step == "set":
            layered.set(key, value)
            plain[key] = value
        elif step == "delete":
            layered.delete(key)
            plain.pop(key, None)
        elif step == "freeze":
            views.append((layered.freeze(), dict(plain)))
        elif step == "release" and key < len(views):
            views.pop(key)[0].release()
        elif step == "fold":
            layered.fold()
        assert dict(layered.items()) == plain
        assert [layered.get(k) for k in range(6)] == [plain.get(k, ABSENT) for k in range(6)]
        assert layered.get_many(range(6), default=-1) == [plain.get(k, -1) for k in range(6)]
        assert all(view.merged() == copied for view, copied in views)
    for view, _ in views:
        view.release()
    layered.fold()
    assert layered.is_flat
    assert layered.top == plain


def test_another_view_moves_no_entry_either_because_somebody_may_be_reading():
    """A dict that grows while its keys are listed raises; the operator lists them beside the thread of snapshots."""
    layered = LayeredDict()
    layered.set(0, 0)
    layered.set(1, 1)
    view = layered.freeze()
    layered.set(2, 2)
    view.release()
    reading = layered.each_key()
    found = [next(reading), next(reading)]
    layered.freeze()
    assert sorted([*found, *reading]) == [0, 1, 2]
    layered.fold()
    assert not layered.is_flat, "the second view is held"


def test_views_that_are_released_one_by_one_leave_one_layer():
    layered = LayeredDict()
    for number in range(3):
        layered.set(number, number)
        layered.freeze().release()
    assert [len(layer) for layer in layered._frozen] == [1, 1, 1]
    layered.fold()
    assert layered.is_flat
    assert layered.top == {0: 0, 1: 1, 2: 2}


def test_freezing_moves_no_entry_and_folding_moves_only_those_written_since():
    layered = LayeredDict()
    for number in range(1000):
        layered.set(number, number)
    base = layered.top
    view = layered.freeze()
    assert view.merged() is base
    assert layered.top == {}
    layered.set(5, "new")
    layered.delete(6)
    assert len(layered.top) == 2
    view.release()
    layered.fold()
    assert layered.top is base
    assert (layered.get(5), layered.get(6), len(layered.top)) == ("new", ABSENT, 999)


def test_layers_do_not_pile_up_above_a_view_that_is_held_for_long():
    """A savepoint may be stored for as long as many checkpoints take, each with a view of its own."""
    layered = LayeredDict()
    for number in range(100):
        layered.set(number, "before")
    long_one = layered.freeze()
    for round_ in range(50):
        layered.fold()
        layered.set(round_, round_)
        layered.delete(99 - round_ // 2)
        layered.freeze().release()
    layered.fold()
    assert [len(layer) for layer in layered._frozen] == [100]
    assert len(layered.top) <= 75
    assert long_one.merged() == dict.fromkeys(range(100), "before")
    assert dict(layered.items()) == {n: n if n < 50 else "before" for n in range(75)}
    long_one.release()
    layered.fold()
    assert layered.is_flat
    assert layered.top == {n: n if n < 50 else "before" for n in range(75)}


TIMERS = st.builds(
    Timer, st.integers(-3, 12), st.sampled_from(["a", "b", None]), st.just(1), st.sampled_from([None, "w"])
)


def timers_of(view: View) -> list[Timer]:
    """As a snapshot has them."""
    return [canonical.TableCodec(SPEC).timer(row) for row in rows(view, SPEC, 0)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "remove", "due", "freeze", "release"]), TIMERS), max_size=40
    )
)
def test_timers_in_memory_are_a_sorted_set_and_their_views_are_copies(steps):
    table, plain, views = HeapTimerTable(), set(), []
    for step, timer in steps:
        if step == "add":
            table.add(timer)
            plain.add(timer)
        elif step == "remove":
            table.remove(timer)
            plain.discard(timer)
        elif step == "freeze":
            views.append((table.freeze(), set(plain)))
        elif step == "release" and views:
            views.pop()[0].release()
        elif step == "due":
            due = list(table.due(timer.timestamp))
            assert [t.timestamp for t in due] == sorted(t.timestamp for t in due)
            assert len(due) == len(set(due))
            assert set(due) == {t for t in plain if t.timestamp <= timer.timestamp}
        assert len(table) == len(plain)
        assert table.contains(timer) == (timer in plain)
        assert table.next_timestamp() == min((t.timestamp for t in plain), default=None)
        for view, copied in views:
            found = timers_of(view)
            assert set(found) == copied
            assert [t.timestamp for t in found] == sorted(t.timestamp for t in copied)


def test_times_whose_timers_are_gone_do_not_pile_up_behind_one_that_stays():
    """An idle time-out is deleted and registered anew by every row of its key."""
    table = HeapTimerTable()
    table.add(Timer(5, "idle", 1))
    for now in range(10, 30_010, 10):
        table.remove(Timer(now - 10, "active", 1))
        table.add(Timer(now, "active", 1))
    assert len(table._heap) < 2_000
    assert table.next_timestamp() == 5
    assert [timer.timestamp for timer in table.due(10**6)] == [5, 30_000]
    table.remove(Timer(5, "idle", 1))
    assert table.next_timestamp() == 30_000
