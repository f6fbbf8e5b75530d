"""The stored windows of a key that merge, beside a plain list of rows: whatever order rows come in and windows end in,
each window has the rows of its time and a place of its own."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sparkstate.windows.merging import MergingWindows
from sparkstate.windows.session_windows import EventTimeSessionWindows
from sparkstate.windows.window import MergeCallback, TimeWindow

GAP = 5


class Cell:
    """A value state of one key."""

    stored: bytes | None = None

    def value(self) -> bytes | None:
        return self.stored

    def update(self, value: bytes | None) -> None:
        self.stored = value


class Named(EventTimeSessionWindows):
    """The same sessions as an author would write them, who says what merges."""

    merges_what_touches = False

    def merge_windows(self, windows: Any, callback: MergeCallback) -> None:
        TimeWindow.merge_windows(windows, callback)


def sessions(times: list[int]) -> dict[TimeWindow, list[int]]:
    """The windows of these rows, and the rows of each."""
    found: dict[TimeWindow, list[int]] = {}
    run: list[int] = []
    for time in sorted(times):
        if run and time > run[-1] + GAP:
            found[TimeWindow(run[0], run[-1] + GAP)] = run
            run = []
        run.append(time)
    if run:
        found[TimeWindow(run[0], run[-1] + GAP)] = run
    return found


STEPS = st.lists(st.one_of(st.integers(0, 60), st.just("the first ends"), st.just("the last ends")))


@given(STEPS, st.booleans())
@example([10, 30, 50, 20, "the first ends", 0, 25, 40], True)
@example([10, 30, 50, "the last ends", 28, 33, 31], True)
def test_windows_have_the_rows_of_their_time(steps: list[int | str], is_author_asked: bool) -> None:
    state: Any = Cell()
    assigner = (Named if is_author_asked else EventTimeSessionWindows)(GAP)
    windows = MergingWindows(assigner, state)
    contents: dict[Any, list[int]] = defaultdict(list)

    def merged(result: Any, gone: Any, into: Any, others: Any) -> None:
        for other in others:
            contents[into] += contents.pop(other)

    times: list[int] = []
    for step in steps:
        windows.load()
        if isinstance(step, int):
            before = sessions(times)
            window, is_new = windows.add(TimeWindow(step, step + GAP), merged)
            contents[windows.namespace(window)].append(step)
            times.append(step)
            assert is_author_asked or is_new == (window not in before)
        elif times:
            window = sorted(sessions(times))[0 if step == "the first ends" else -1]
            ended = contents.pop(windows.namespace(window))
            windows.retire(window)
            times = [time for time in times if time not in ended]
            assert window not in windows
        windows.save()
        windows.load()
        wanted = sessions(times)
        assert {window: sorted(contents[windows.namespace(window)]) for window in wanted} == wanted
        assert len({windows.namespace(window) for window in wanted}) == len(wanted)
        assert len(state.stored or b"") == 24 * len(wanted)
        assert (state.stored is None) == (not wanted)


def test_a_window_whose_bytes_lie_across_two_others_is_not_found() -> None:
    state: Any = Cell()
    windows = MergingWindows(EventTimeSessionWindows(GAP), state)
    windows.load()
    for start in (10, 30, 0, 50):
        windows.add(TimeWindow(start, start + GAP), lambda *_: None)
    windows.save()
    # The place of the first window and the start of the second: 2, 10.
    assert state.stored[16:32] == (2).to_bytes(8, "big") + (10).to_bytes(8, "big")
    windows.load()
    assert TimeWindow(2, 10) not in windows
    assert TimeWindow(30, 35) in windows
