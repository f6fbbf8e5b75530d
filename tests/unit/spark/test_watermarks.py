"""The watermark: Flink's definition, idle sources, parts of a source, checkpoints of either definition."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried

from sparkstate import errors
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK
from sparkstate.spark import watermarks as module
from sparkstate.spark.graph import Source
from sparkstate.spark.watermarks import SourceTime, StoredWatermarks, Watermarks

PARTS = ("topic", "partition")
P0, P1 = '{"topic":"clicks","partition":0}', '{"topic":"clicks","partition":1}'


def source(
    delay: int = 0, idle: int | None = None, active: int = 0, columns: tuple[str, ...] = ()
) -> SourceTime:
    return SourceTime(delay, idle, active, columns)


def whole(**largest: int) -> dict[tuple[int, str], int]:
    return {(int(name[1:]), module.WHOLE): time for name, time in largest.items()}


def parts(p0: int | None = None, p1: int | None = None) -> dict[tuple[int, str], int]:
    return {(0, label): time for label, time in ((P0, p0), (P1, p1)) if time is not None}


def test_the_watermark_is_the_largest_event_time_less_the_delay_less_one() -> None:
    assert Watermarks((source(delay=10),)).advance(whole(s0=100), 0).current == 89


def test_before_every_source_has_shown_a_row_there_is_no_watermark() -> None:
    assert Watermarks((source(), source())).advance(whole(s0=100), 0).current == MIN_WATERMARK


def test_the_slowest_source_holds_the_watermark() -> None:
    assert Watermarks((source(), source(delay=5))).advance(whole(s0=100, s1=50), 0).current == 44


def test_an_input_without_event_time_holds_nothing_back() -> None:
    frame = cast("Any", None)
    declared = [Source(frame=frame, event_time="at"), Source(frame=frame, of_input=1)]
    watermarks = module.fresh(declared, 0).advance(whole(s0=100), 0)
    assert watermarks.current == 99
    assert watermarks.restored(StoredWatermarks(current=99, largest={0: 100})).advance({}, 1).current == 99
    of_one_input = [declared[0], replace(declared[1], of_input=0)]
    assert module.fresh(of_one_input, 0).advance(whole(s0=100), 0).current == MIN_WATERMARK


def test_the_watermark_never_goes_back() -> None:
    first = Watermarks((source(),)).advance(whole(s0=100), 0)
    assert first.advance(whole(s0=20), 1).current == 99


@pytest.mark.parametrize("time", [-(2**63), -(2**63) + 5, 2**63 - 1])
def test_event_times_at_the_ends_of_time_neither_overflow_nor_end_the_input(time: int) -> None:
    moved = Watermarks((source(delay=3),)).advance(whole(s0=time), 0).current
    assert moved == max(time - 4, MIN_WATERMARK)
    assert moved < MAX_WATERMARK


def test_an_idle_source_lets_the_others_go_on_after_its_timeout() -> None:
    both = Watermarks((source(), source(idle=1000))).advance(whole(s0=100, s1=50), 0)
    assert both.advance(whole(s0=200), 999).current == 49
    assert both.advance(whole(s0=200), 1000).current == 199


def test_when_all_sources_are_idle_the_watermark_stays() -> None:
    one = Watermarks((source(idle=10),)).advance(whole(s0=100), 0)
    assert one.advance({}, 10_000).current == 99


def test_an_idle_source_that_comes_back_cannot_pull_the_watermark_back() -> None:
    both = Watermarks((source(), source(idle=10))).advance(whole(s0=100, s1=50), 0)
    assert both.advance(whole(s0=200), 100).advance(whole(s1=60), 101).current == 199


def test_bounded_input_ends_with_the_largest_watermark() -> None:
    assert Watermarks((source(),)).ended().current == MAX_WATERMARK


def test_without_event_time_there_is_never_a_watermark() -> None:
    assert Watermarks(()).advance({}, 0).current == MIN_WATERMARK


# --- parts of a source


def test_a_part_that_is_read_behind_the_others_holds_the_watermark_until_it_has_caught_up() -> None:
    told = Watermarks((source(columns=PARTS),)).advance(parts(100, 100), 0)
    far = told.advance(parts(p0=9_000), 1)
    assert far.current == 99
    behind = far.advance(parts(9_100, 5_000), 2)
    assert behind.current == 4_999
    assert behind.advance(parts(p1=9_050), 3).current == 9_049


def test_a_quiet_part_holds_the_watermark_until_its_idle_timeout() -> None:
    told = Watermarks((source(idle=1_000, columns=PARTS),)).advance(parts(100, 50), 0)
    assert told.advance(parts(p0=900), 999).current == 49
    assert told.advance(parts(p0=900), 1_000).current == 899


def test_a_part_without_a_row_holds_nothing() -> None:
    told = Watermarks((source(columns=PARTS),)).advance(parts(p0=9_000), 0)
    assert told.current == 8_999


def test_a_source_all_of_whose_parts_are_idle_is_idle() -> None:
    told = Watermarks((source(idle=10, columns=PARTS), source(delay=1)))
    told = told.advance({**parts(100, 50), (1, module.WHOLE): 20}, 0)
    assert told.current == 18
    assert told.advance({(1, module.WHOLE): 500}, 10).current == 498


def test_more_parts_than_a_source_can_have_are_refused_with_the_remedy() -> None:
    one = Watermarks((source(columns=("user",)),))
    many = {(0, str(number)): 1 for number in range(module.MOST_PARTS + 1)}
    with pytest.raises(errors.SpecInvalid, match="topic and partition"):
        one.advance(many, 0)


def test_idle_parts_are_forgotten_before_there_are_too_many() -> None:
    one = Watermarks((source(idle=1_000, columns=("user",)),))
    many = {(0, str(number)): 1 for number in range(module.MOST_PARTS)}
    full = one.advance(many, 0).advance({(0, "0"): 5}, 900)
    after = full.advance({(0, "another"): 9}, 1_000)
    assert after.stored_parts() == {0: {"0": 5, "another": 9}}
    assert after.current == 4
    with pytest.raises(errors.SpecInvalid, match="idle_timeout"):
        full.advance({(0, "another"): 9}, 999)


# --- pauses


def test_a_pause_of_the_job_is_not_idleness_of_a_part() -> None:
    told = Watermarks((source(idle=1_000, columns=PARTS),)).advance(parts(100, 50), 0)
    after = told.paused(60_000, 60_000).advance(parts(p0=900), 60_000)
    assert after.current == 49
    assert after.advance(parts(p0=900), 60_999).current == 49
    assert after.advance(parts(p0=900), 61_000).current == 899


def test_a_pause_of_the_job_is_not_idleness_of_a_source() -> None:
    told = Watermarks((source(idle=1_000), source(idle=1_000))).advance(whole(s0=100), 0)
    assert told.paused(60_000, 60_000).advance(whole(s0=900), 60_000).current == MIN_WATERMARK
    assert told.advance(whole(s0=900), 60_000).current == 899


def test_what_was_idle_before_a_pause_is_idle_after_it() -> None:
    told = Watermarks((source(idle=1_000, columns=PARTS),)).advance(parts(100, 50), 0)
    assert told.paused(60_000, 61_000).advance(parts(p0=900), 61_000).current == 899


def test_pauses_of_two_threads_at_once_move_nothing_into_the_future() -> None:
    told = Watermarks((source(idle=1_000, columns=PARTS),)).advance(parts(100, 50), 0)
    after = told.paused(120_000, 60_000)
    assert after.advance(parts(p0=900), 61_000).current == 899


def test_parts_are_restored_and_go_on_holding_the_watermark() -> None:
    told = Watermarks((source(delay=10, columns=PARTS),)).advance(parts(9_000, 100), 5)
    stored = StoredWatermarks(current=told.current, largest=told.stored_largest(), parts=told.stored_parts())
    assert stored.largest == {0: 9_000}
    assert stored.parts == {0: {P0: 9_000, P1: 100}}
    again = Watermarks((source(delay=10, columns=PARTS, active=7),)).restored(stored)
    assert again.current == 89
    assert again.advance(parts(p0=9_500), 8).current == 89
    assert again.advance(parts(p1=9_200), 8).current == 8_989


def test_parts_that_other_columns_told_apart_hold_nothing_after_a_restore() -> None:
    stored = StoredWatermarks(current=89, largest={0: 9_000}, parts={0: {P0: 9_000, P1: 100}})
    by_region = Watermarks((source(columns=("region",)),)).restored(stored)
    assert by_region.advance({(0, '{"region":"eu"}'): 20_000}, 0).current == 19_999
    not_told = Watermarks((source(),)).restored(stored)
    assert not_told.current == 89
    assert not_told.advance({}, 0).current == 8_999


def test_a_checkpoint_without_parts_goes_on_where_it_was_until_parts_have_shown_rows() -> None:
    restored = Watermarks((source(columns=PARTS),)).restored(StoredWatermarks(current=89, largest={0: 9_000}))
    assert restored.advance({}, 0).current == 89
    assert restored.advance(parts(9_100, 95), 0).current == 94


# --- checkpoints


def test_after_the_end_of_the_input_the_next_run_goes_on_where_it_was() -> None:
    first = Watermarks((source(delay=10),)).advance(whole(s0=100), 0).ended().ended()
    assert first.before_end == 89
    stored = StoredWatermarks(current=first.current, largest={0: 100}, before_end=first.before_end)
    again = Watermarks((source(delay=10),)).restored(stored)
    assert again.current == 89
    assert again.before_end is None
    assert again.ended().before_end == 89


def test_an_end_that_an_older_version_stored_goes_on_from_the_largest_event_times() -> None:
    two = Watermarks((source(delay=10, idle=5, active=7), source(delay=20, active=7)))

    def drained(**largest: int) -> StoredWatermarks:
        by_source = {int(name[1:]): time for name, time in largest.items()}
        return StoredWatermarks(current=MAX_WATERMARK, largest=by_source, late_at_watermark=False)

    assert two.restored(drained(s0=100, s1=100)).current == 79
    assert two.restored(drained(s0=100)).current == MIN_WATERMARK


def test_what_was_restored_goes_on_where_it_was() -> None:
    restored = Watermarks((source(delay=10), source())).restored(
        StoredWatermarks(current=70, largest={0: 100})
    )
    assert restored.current == 70
    assert restored.advance(whole(s0=500), 0).current == 70
    assert restored.advance(whole(s0=500, s1=300), 0).current == 299


TIMES = st.integers(-(2**63) + 2, 2**63 - 2)


@given(watermark=TIMES, time=TIMES, drained=st.booleans())
def test_after_a_restore_of_the_older_definition_the_same_rows_are_late(
    watermark: int, time: int, drained: bool
) -> None:
    stored = StoredWatermarks(current=watermark, largest={}, late_at_watermark=False)
    if drained:
        stored = replace(stored, current=MAX_WATERMARK, before_end=watermark)
    was_late, now = time < watermark, Watermarks((source(),)).restored(stored).current
    assert (time <= now) == was_late


def test_the_older_definitions_word_for_no_watermark_is_kept() -> None:
    stored = StoredWatermarks(current=MIN_WATERMARK, largest={}, late_at_watermark=False)
    assert Watermarks((source(),)).restored(stored).current == MIN_WATERMARK


@settings(max_examples=tried(300))
@given(
    delays=st.lists(st.integers(0, 50), min_size=1, max_size=3),
    idle=st.one_of(st.none(), st.integers(1, 20)),
    epochs=st.lists(
        st.tuples(
            st.integers(0, 10),
            st.dictionaries(
                st.tuples(st.integers(0, 2), st.sampled_from("abc")), st.integers(-1000, 1000), max_size=5
            ),
        ),
        max_size=12,
    ),
)
def test_watermarks_are_those_of_flinks_generators_and_multiplexer(delays, idle, epochs) -> None:
    """Against a model of Flink: a bounded-out-of-orderness generator with idleness per part, and a multiplexer that
    puts out the least watermark of the parts that are active, if it is larger than the last one."""
    sources = tuple(source(delay=delay, idle=idle, columns=("part",)) for delay in delays)
    ours = Watermarks(sources)
    generators: dict[tuple[int, str], list[int]] = {}
    last, now = MIN_WATERMARK, 0
    for passed, drawn in epochs:
        now += passed
        rows = {part: time for part, time in drawn.items() if part[0] < len(delays)}
        for part, time in rows.items():
            known = generators.setdefault(part, [MIN_WATERMARK + delays[part[0]] + 1, now])
            known[0], known[1] = max(known[0], time), now
        ours = ours.advance(rows, now)
        channels = {
            part: largest - delays[part[0]] - 1
            for part, (largest, active) in generators.items()
            if idle is None or now - active < idle
        }
        silent = [n for n in range(len(delays)) if not any(part[0] == n for part in generators)]
        if channels and not (silent and (idle is None or now < idle)):
            last = max(last, min(channels.values()))
        assert ours.current == last


def test_the_model_above_has_parts_that_differ() -> None:
    """That the property is no matter of one part alone: two parts, and the one behind decides."""
    for order in itertools.permutations([((0, "a"), 5), ((0, "b"), 500)]):
        told = Watermarks((source(columns=("part",)),)).advance(dict(order), 0)
        assert told.current == 4
