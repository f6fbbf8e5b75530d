"""Windows by slices give what a plain list of rows for each key and window gives, however the input is cut and late."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.windows import keyed_rows
from support.windows.keyed_rows import KEY_TYPES, KEYS, LATE, at, element, keyed

from sparkstate import columns, errors, testing
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.distinct import DistinctCount
from sparkstate.aggregates.ends import EndValue
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Average, Count, Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.backends import loader
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.functions import MIN_WATERMARK, OutputTag
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.testing import KeyedProcessHarness, ManualClock
from sparkstate.windows import ProcessWindowFunction, SlidingEventTimeWindows

LONG, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()
OUTPUTS = (
    Output("rows", "count", Count(of_rows=True), None),
    Output("values", "count", Count(), "v", LONG),
    Output("total", "sum", Sum(LONG), "v", LONG),
    Output("mean", "avg", Average(DOUBLE), "v", LONG),
    Output("least", "min", Extreme(LONG, is_greatest=False), "v", LONG),
    Output("greatest", "max", Extreme(TEXT, is_greatest=True), "s", TEXT),
    Output("first", "first", EndValue(LONG, is_last=False), "v", LONG),
    Output("last", "last", EndValue(TEXT, is_last=True, ignores_nulls=True), "s", TEXT),
    Output("spread", "stddev_pop", Deviation(is_sample=False), "v", LONG),
    Output("kinds", "approx_count_distinct", DistinctCount(), "s", TEXT),
)
KEY_SPACE = KeySpace(16, 2)


class Model:
    """Rows in lists, by key and window."""

    def __init__(self, size, slide, offset, lateness):
        self.size, self.slide, self.offset, self.lateness = size, slide, offset, lateness
        self.windows, self.watermark, self.late = {}, MIN_WATERMARK, []

    def push(self, rows, watermark):
        again = set()
        for key, time, value, text in rows:
            start = time - (time - self.offset) % self.slide
            starts = range(start, time - self.size, -self.slide)
            taken = [start for start in starts if start + self.size - 1 + self.lateness > self.watermark]
            if not taken and (starts or time + self.lateness <= self.watermark):
                self.late.append((key, value, text))
            for start in taken:
                self.windows.setdefault((key, start), []).append((time, value, text))
                if start + self.size - 1 <= self.watermark:
                    again.add((key, start))
        fired = [self.result(*window) for window in again]
        before, self.watermark = self.watermark, max(watermark, self.watermark)
        for window in list(self.windows):
            end = window[1] + self.size
            if before < end - 1 <= self.watermark:
                fired.append(self.result(*window))
            if end - 1 + self.lateness <= self.watermark:
                del self.windows[window]
        return fired

    def result(self, key, start):
        rows = self.windows[key, start]
        values = [value for _, value, _ in rows if value is not None]
        texts = [text for _, _, text in rows if text is not None]
        with_text = [row for row in rows if row[2] is not None]
        return (
            key,
            at(start),
            at(start + self.size),
            len(rows),
            len(values),
            sum(values) if values else None,
            round(sum(values) / len(values), 6) if values else None,
            min(values, default=None),
            max(texts, default=None, key=lambda text: text.encode()),
            min(rows, key=lambda row: row[0])[1],
            max(enumerate(with_text), key=lambda row: (row[1][0], row[0]))[1][2] if with_text else None,
            round(statistics.pstdev(values), 6) if values else None,
            len(set(texts)),
        )


def found(rows):
    """Output rows, with floating-point numbers rounded."""
    return Counter(tuple(round(each, 6) if isinstance(each, float) else each for each in row) for row in rows)


def harness(kind, backend, slices, late_tag=None):
    function = WindowAggregation(slices, ("k",), OUTPUTS, late_tag, ("k", "v", "s"))
    return KeyedProcessHarness(function, key=lambda row: row.k, key_type=KEY_TYPES[kind], backend=backend)


EPOCHS = st.lists(st.tuples(keyed_rows.lists(at_most=12), st.integers(-60, 160), st.booleans()), max_size=8)
SHAPES = st.tuples(
    st.integers(1, 24), st.integers(1, 24), st.integers(-23, 23), st.sampled_from([0, 0, 3, 30])
)


@pytest.mark.parametrize("kind", list(KEYS))
@settings(max_examples=tried(20), deadline=None)
@given(epochs=EPOCHS, shape=SHAPES, begins_on=st.sampled_from(["hashmap", "rocksdb"]), has_null=st.booleans())
def test_slices_give_what_lists_of_rows_give(kind, epochs, shape, begins_on, has_null):
    size, slide, offset, lateness = shape
    offset = offset % slide if offset >= 0 else -(-offset % slide)
    model = Model(size, slide, offset, lateness)
    slices = Slices(size, slide, offset, lateness)
    backend, opened = begins_on, harness(kind, begins_on, slices, LATE)
    try:
        for pushed, watermark, restores in [*epochs, ([], 10_000, False)]:
            rows = keyed(kind, pushed, has_null)
            opened.clear_output()
            opened.process_elements(map(element, rows), watermark)
            expected = model.push(rows, watermark)
            assert found(opened.output()) == found(expected)
            assert Counter(map(tuple, opened.side_output(LATE))) == Counter(model.late)
            model.late.clear()
            if restores:  # from a snapshot, with the other backend
                snapshot = opened.snapshot()
                opened.close()
                backend = "rocksdb" if backend == "hashmap" else "hashmap"
                opened = harness(kind, backend, slices, LATE)
                opened.restore(snapshot)
        assert opened.num_event_timers() == 0
        assert rows_left(kind, slices, opened.snapshot()) == 0
    finally:
        opened.close()


def rows_left(kind, slices, snapshot):
    """Entries of state and timers in a snapshot."""
    with harness(kind, "hashmap", slices, LATE) as opened:
        opened.restore(snapshot)
        return sum(store.stats().rows for store in opened._stores.values())


STEEP = st.tuples(st.integers(8, 24), st.integers(1, 4), st.integers(0, 0), st.sampled_from([0, 5, 40]))


@settings(max_examples=tried(60), deadline=None)
@given(epochs=EPOCHS, shape=STEEP, has_null=st.booleans())
def test_windows_that_overlap_much_give_the_same(epochs, shape, has_null):
    """They are merged from tails and a front; late rows change slices that were merged."""
    model, slices = Model(*shape), Slices(*shape)
    with harness("numbers", "hashmap", slices, LATE) as opened:
        for pushed, watermark, _ in [*epochs, ([], 10_000, False)]:
            rows = keyed("numbers", pushed, has_null)
            opened.clear_output()
            opened.process_elements(map(element, rows), watermark)
            assert found(opened.output()) == found(model.push(rows, watermark))
        assert rows_left("numbers", slices, opened.snapshot()) == 0


@pytest.mark.parametrize(
    "slices",
    [Slices(60, 10, lateness=20), Slices(10, 10, lateness=20), Slices(60, 4)],
    ids=["sliding", "tumbling", "together"],
)
@pytest.mark.parametrize("kind", list(KEYS))
def test_overlays_that_go_to_disk_at_every_occasion_give_the_same(tmp_path, kind, slices):
    found_by = {}
    for name, limit in (("memory", 1 << 30), ("disk", 1)):
        factory = RocksDBStoreFactory(
            StateBackendSettings(type="rocksdb", managed_memory_bytes=8 * MIB), tmp_path / name, ManualClock()
        )
        stores = {
            shard: factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), tmp_path / name / str(shard))
            for shard in range(2)
        }
        budget = EpochBudget(tmp_path / name / "overlays", factory, limit)
        operator = operator_of(kind, slices, stores, budget)
        found_by[name] = [row for epoch in range(8) for row in run_epoch(operator, kind, epoch)]
        assert (budget.spilled > 0) == (name == "disk")
        for store in stores.values():
            store.close()
        factory.close()
    assert found_by["memory"]
    assert Counter(found_by["memory"]) == Counter(found_by["disk"])


def operator_of(kind, slices, stores, budget):
    function = WindowAggregation(slices, ("k",), OUTPUTS[:5])
    fields = [("k", LONG if kind == "numbers" else TEXT), ("window_start", pa.timestamp("us", "UTC"))]
    fields += [("rows", LONG), ("values", LONG), ("total", LONG), ("mean", DOUBLE), ("least", LONG)]
    spec = kinds.spec(
        function,
        uid="windows",
        row_columns=("k", "v"),
        key_columns=("k",),
        key_type=KEY_TYPES[kind],
        event_time_column=columns.TIMESTAMP,
        output_schema=pa.schema(fields),
    )
    operator = kinds.make(spec, stores, KEY_SPACE, ManualClock(), 0, 1, budget)
    operator.open()
    return operator


def run_epoch(operator, kind, epoch):
    """Rows of forty keys, some of them late."""
    rng = random.Random(epoch)
    rows = [(rng.randrange(40), epoch * 20 + rng.randrange(-30, 40), rng.randrange(100)) for _ in range(200)]
    keys = [key if kind == "numbers" else f"key-{key}" for key, _, _ in rows]
    batch = pa.record_batch(
        {
            "k": keys,
            "v": [value for _, _, value in rows],
            columns.KEY_GROUP: pa.array([key % 16 for key, _, _ in rows], pa.int32()),
            columns.TIMESTAMP: [time for _, time, _ in rows],
        }
    )
    overlay = operator.begin(epoch + 1, epoch * 20 - 1 if epoch else MIN_WATERMARK, 0)
    for start in (0, 100):
        operator.process_batch(overlay, batch.slice(start, 100))
    operator.finish(overlay, epoch * 20 + 19 if epoch < 7 else 10_000)
    found = [tuple(row.values()) for each in overlay.output() for row in each.to_pylist()]
    commit_overlays([(operator, overlay)])
    return found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_window_that_begins_and_ends_within_an_epoch_writes_nothing(tmp_path, backend):
    settings = StateBackendSettings(type=backend, managed_memory_bytes=8 * MIB)
    factory = loader.create_store_factory(settings, tmp_path)
    stores = {
        shard: factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), tmp_path / str(shard))
        for shard in range(2)
    }
    operator = operator_of("numbers", Slices(10, 10), stores, None)
    written = []
    for watermark, times in ((99, [9, 50, 51, 99]), (120, [102, 111, 131]), (200, [134])):
        batch = pa.record_batch(
            {
                "k": [time % 3 for time in times],
                "v": times,
                columns.KEY_GROUP: pa.array([time % 3 * 5 for time in times], pa.int32()),
                columns.TIMESTAMP: times,
            }
        )
        overlay = operator.begin(watermark, 0 if watermark == 99 else 99, 0)
        operator.process_batch(overlay, batch)
        operator.finish(overlay, watermark)
        written.append(Counter(rows_written(operator.changes(overlay))))
        commit_overlays([(operator, overlay)])
    assert written[0] == {}
    # The window from 130 to 140 is left, with its timer and one row for all of its values ...
    assert written[1] == {("pairs", True): 1, ("timer_columns", True): 1}
    # ... which go in the last epoch.
    assert written[2] == {("pairs", False): 1, ("timer_columns", False): 1}
    for store in stores.values():
        assert sum(table.rows for table in store.stats().tables) == 0 or backend == "rocksdb"
        store.close()
    factory.close()


def rows_written(changes):
    """For each change its form, and whether something is written or deleted."""
    for change in (each for of_shard in changes.by_shard.values() for each in of_shard):
        assert not (change.values or change.columns or change.timers)
        for name, flags in (("pairs", "present"), ("timer_columns", "registered")):
            found = getattr(change, name)
            yield from ((name, flag) for flag in (() if found is None else getattr(found, flags).tolist()))


def test_the_sum_of_doubles_does_not_depend_on_the_cut():
    outputs = (Output("total", "sum", Sum(DOUBLE), "v", DOUBLE),)
    values = [0.1, 1e17, 0.3, -1e17, 0.7, math.pi]
    totals = set()
    for cut in range(len(values)):
        function = WindowAggregation(Slices(10, 10), ("k",), outputs)
        with KeyedProcessHarness(function, key=lambda row: row.k, key_type=Types.LONG()) as opened:
            for part in (values[:cut], values[cut:]):
                opened.process_elements([({"k": 1, "v": value}, 1) for value in part])
            opened.process_watermark(100)
            totals.add(opened.output()[0].total)
    assert len(totals) == 1


WINDOWS = testing.keyed(Types.ROW_NAMED(["k", "t"], [Types.LONG(), Types.LONG()]), "k").window(
    SlidingEventTimeWindows.of("3 ms", "10 ms", "1 ms")
)


class Rows(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, len(elements)


@pytest.mark.parametrize("lateness", [0, 4])
def test_rows_in_a_gap_between_windows_are_late_when_they_are_for_other_functions_of_windows(lateness):
    windows = WINDOWS.allowed_lateness(lateness).side_output_late_data(OutputTag("late", "k long, t long"))
    by_record = windows.process(Rows(), element_type=WINDOWS.stream.row_type)
    results = []
    for function in (windows.agg(rows="count(*)"), by_record):
        with KeyedProcessHarness(
            function, key=WINDOWS.stream.key, key_type=WINDOWS.stream.key_type
        ) as opened:
            for watermark in (12, 100):
                opened.process_elements([({"k": 1, "t": time}, time) for time in range(30)], watermark)
            late = sorted(row.t for row in opened.side_output(windows.late_tag))
            ended = sorted((row[0], _ms(row[1]), _ms(row[2]), row[3]) for row in opened.output())
        results.append((late, ended))
    assert results[0] == results[1]
    gaps = [time for time in range(4, 13 - lateness) if not 11 <= time < 14]
    assert set(gaps) <= set(results[0][0])
    assert max(results[0][0]) == max(gaps)


def _ms(bound):
    return bound if isinstance(bound, int) else round(bound.timestamp() * 1000)


def test_late_rows_in_a_gap_are_counted_and_dropped_without_a_side_output(tmp_path):
    assert late_and_put_out(tmp_path, Slices(2, 10), [1, 2, 9, 10, 11, 12]) == (3, [2])
    assert late_and_put_out(tmp_path, Slices(2, 10, lateness=3), [1, 2, 6, 7, 9, 10, 11]) == (3, [2])


def test_late_rows_are_counted_and_dropped_without_a_side_output(tmp_path):
    assert late_and_put_out(tmp_path, Slices(10, 10), [9, 10]) == (1, [1])


def late_and_put_out(tmp_path, slices, times):
    """How many rows are late by the watermark 9, and how many each window has that is put out."""
    factory = HashMapStoreFactory()
    stores = {
        shard: factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), tmp_path) for shard in range(2)
    }
    operator = operator_of("numbers", slices, stores, None)
    batch = pa.record_batch(
        {
            "k": [1] * len(times),
            "v": [1] * len(times),
            columns.KEY_GROUP: pa.array([0] * len(times), pa.int32()),
            columns.TIMESTAMP: times,
        }
    )
    overlay = operator.begin(1, 9, 0)
    operator.process_batch(overlay, batch)
    operator.finish(overlay, 100)
    return overlay.late_rows, [row["rows"] for each in overlay.output() for row in each.to_pylist()]


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (2**62, "windows take times"),
        (-(2**62), "windows take times"),
        (-(2**63), "windows take times"),
        (None, "a row without event time"),
    ],
    ids=str,
)
def test_a_time_that_no_window_has_fails_with_its_row(time, message):
    with harness("numbers", "hashmap", Slices(10, 10)) as opened:
        with pytest.raises(errors.UserCodeError, match=message) as refused:
            opened.process_element({"k": 1, "v": 4711, "s": None}, time)
        assert "4711" in str(refused.value)
