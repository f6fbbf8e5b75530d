from __future__ import annotations

from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK
from sparkstate.spark.watermarks import SourceTime, Watermarks


def source(delay: int = 0, idle: int | None = None, active: int = 0) -> SourceTime:
    return SourceTime(delay, idle, active)


def test_the_watermark_is_the_largest_event_time_less_the_delay() -> None:
    assert Watermarks((source(delay=10),)).advance({0: 100}, 0).current == 90


def test_before_every_source_has_shown_a_row_there_is_no_watermark() -> None:
    assert Watermarks((source(), source())).advance({0: 100}, 0).current == MIN_WATERMARK


def test_the_slowest_source_holds_the_watermark() -> None:
    assert Watermarks((source(), source(delay=5))).advance({0: 100, 1: 50}, 0).current == 45


def test_the_watermark_never_goes_back() -> None:
    first = Watermarks((source(),)).advance({0: 100}, 0)
    assert first.advance({0: 20}, 1).current == 100


def test_an_idle_source_lets_the_others_go_on_after_its_timeout() -> None:
    both = Watermarks((source(), source(idle=1000))).advance({0: 100, 1: 50}, 0)
    assert both.advance({0: 200}, 999).current == 50
    assert both.advance({0: 200}, 1000).current == 200


def test_when_all_sources_are_idle_the_watermark_stays() -> None:
    one = Watermarks((source(idle=10),)).advance({0: 100}, 0)
    assert one.advance({}, 10_000).current == 100


def test_an_idle_source_that_comes_back_cannot_pull_the_watermark_back() -> None:
    both = Watermarks((source(), source(idle=10))).advance({0: 100, 1: 50}, 0).advance({0: 200}, 100)
    assert both.advance({1: 60}, 101).current == 200


def test_bounded_input_ends_with_the_largest_watermark() -> None:
    assert Watermarks((source(),)).ended().current == MAX_WATERMARK


def test_after_the_end_of_the_input_the_next_run_goes_on_where_it_was() -> None:
    first = Watermarks((source(delay=10),)).advance({0: 100}, 0).ended().ended()
    assert first.before_end == 90
    again = Watermarks((source(delay=10),)).restored(first.current, [100], first.before_end)
    assert again.current == 90
    assert again.before_end is None
    assert again.ended().before_end == 90


def test_an_end_that_an_older_version_stored_goes_on_from_the_largest_event_times() -> None:
    two = Watermarks((source(delay=10, idle=5, active=7), source(delay=20, active=7)))
    assert two.restored(MAX_WATERMARK, [100, 100]).current == 80
    assert two.restored(MAX_WATERMARK, [100, None]).current == MIN_WATERMARK


def test_what_was_restored_goes_on_where_it_was() -> None:
    restored = Watermarks((source(delay=10), source())).restored(70, [100, None])
    assert restored.current == 70
    assert restored.advance({0: 500}, 0).current == 70
    assert restored.advance({0: 500, 1: 300}, 0).current == 300


def test_without_event_time_there_is_never_a_watermark() -> None:
    assert Watermarks(()).advance({}, 0).current == MIN_WATERMARK
