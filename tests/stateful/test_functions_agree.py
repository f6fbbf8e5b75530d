"""A function per record and one per batch live the same random life, and must agree on outputs, state and timers.

Both do the same with every kind of state and both kinds of timers. After each push, all that can be read is compared;
now and then both are restored from one of the two snapshots, so each goes on from what the other has stored, also with
the other backend. In many lives the states expire, and the stamps in both snapshots are compared too.
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.backends import own_backends
from support.expiring.ttl_model import Rule
from support.faults import tried

from sparkstate.backends import canonical
from sparkstate.backends.base import StateKind
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import AggregateFunction, KeyedProcessFunction, OutputTag, ReduceFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.testing import KeyedProcessHarness
from sparkstate.testing.harness import HarnessSnapshot

TOTAL = ValueStateDescriptor("total", Types.LONG())
NAME = ValueStateDescriptor("name", Types.STRING())
SPAN = ValueStateDescriptor("span", Types.ROW_NAMED(["low", "high"], [Types.LONG(), Types.DOUBLE()]))
SEEN = ListStateDescriptor("seen", Types.LONG())
LAST = MapStateDescriptor("last", Types.STRING(), Types.LONG())
"""Rows put the entries ``x`` and ``y``. Timers put ``told``, which rows read, and ``asked``, which rows remove: what a
row does to a map is not seen by a later row of its batch."""
FIRED = ValueStateDescriptor("fired", Types.LONG())
"""Written by timers alone, and read by rows alone."""
STATES = ("total", "name", "span", "seen", "last", "most", "mixed", "mean", "odd", "fired")
RULES = st.none() | st.builds(Rule, st.integers(1, 25), st.booleans(), st.booleans())
"""How states expire; None: they do not."""
OUTPUT = ["user", "v", "total", "state", "entry", "has_entry"]
SPACED = ValueStateDescriptor("spaced", Types.LONG())
MEAN = ValueStateDescriptor("mean", Types.DOUBLE())
ODD = ValueStateDescriptor("odd", Types.BOOLEAN())
KEYS = {
    "text": ("a", "b", "c", "d"),
    "numbers": (0, -7, 2**63 - 1, 4),
    "numbers and null": (0, -7, 2**63 - 1, None),
}
KEY_TYPES = {"text": Types.STRING(), "numbers": Types.LONG(), "numbers and null": Types.LONG()}
SIDES = {kind: OutputTag("side", f"user {'string' if kind == 'text' else 'long'}, v long") for kind in KEYS}


class Most(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


MOST = ReducingStateDescriptor("most", Most(), Types.LONG())


class Mixed(AggregateFunction):
    """A number that depends on the order of the values, beside how many there are."""

    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        count, mixed = accumulator
        return count + 1, (31 * mixed + value) % 1_000_003

    def get_result(self, accumulator):
        return 1000 * accumulator[1] + accumulator[0]


MIXED = AggregatingStateDescriptor("mixed", Mixed(), Types.TUPLE([Types.LONG(), Types.LONG()]))


class States:
    """What both functions ask for."""

    def __init__(self, side: OutputTag, expire: Rule | None) -> None:
        self.side = side
        self.expire = expire

    def open(self, ctx: Any) -> None:
        def get(descriptor: Any) -> Any:
            return ctx.get_state(self.living(descriptor))

        self.spaced, self.mean, self.odd, self.fired = get(SPACED), get(MEAN), get(ODD), get(FIRED)
        self.total, self.name, self.span = get(TOTAL), get(NAME), get(SPAN)
        self.seen, self.last = ctx.get_list_state(self.living(SEEN)), ctx.get_map_state(self.living(LAST))
        self.most = ctx.get_reducing_state(self.living(MOST))
        self.mixed = ctx.get_aggregating_state(self.living(MIXED))

    def living(self, descriptor: Any) -> Any:
        made = copy.copy(descriptor)
        if self.expire is not None:
            made.enable_time_to_live(self.expire.config())
        return made


class PerRecord(States, KeyedProcessFunction):
    def process_element(self, value, ctx):
        fired = self.fired.value()
        total = (self.total.value() or 0) + value.v
        self.total.update(total)
        self.name.update(value.word)
        self.mean.update(total / 3)
        self.odd.update(value.v % 2 == 1 if value.v % 3 else None)
        self.spaced.set_current_namespace("n")
        self.spaced.update(total)
        self.spaced.set_current_namespace(None)
        self.spaced.update(self.spaced.value() or value.v)
        self.span.update((value.v, float(total)) if value.v % 3 else None)
        self.seen.add(value.v)
        told = self.last.get("told"), self.last.contains("told")
        self.last.remove("asked" if value.v % 3 == 0 else "nothing")
        self.last.put(value.word, value.v)
        self.most.add(value.v)
        self.mixed.add(value.v)
        ctx.timer_service().register_event_time_timer(value.v)
        ctx.timer_service().register_processing_time_timer(value.v + 1)
        ctx.timer_service().delete_processing_time_timer(value.v - 1)
        if value.v < 0:
            yield self.side, (value.user, value.v)
        yield value.user, value.v, total, fired, *told

    def on_timer(self, timestamp, ctx):
        total = self.total.value() or 0
        known = self.last.get("x"), self.last.contains("y")
        yield ctx.get_current_key(), timestamp, total, self.mixed.get(), *known
        self.total.update(total + 1)
        self.fired.update(timestamp)
        self.seen.update(self.seen.get()[-3:])
        if timestamp % 3 == 0:
            self.seen.add_all([timestamp, total])
        if timestamp % 7 == 0:
            self.mixed.clear()
        self.last.remove("x" if timestamp % 3 else "nothing")
        self.last.put("told" if timestamp % 4 else "asked", self.sum_of_last())
        if timestamp % 2:
            self.last.clear()
            # A later one, which may be due in this same pass, and one less.
            ctx.timer_service().register_event_time_timer(timestamp + 3)
            ctx.timer_service().delete_event_time_timer(timestamp + 2)
            ctx.timer_service().delete_processing_time_timer(timestamp + 4)
        if timestamp % 5 == 0:
            self.total.clear()

    def sum_of_last(self):
        return sum(value for _, value in self.last.items()) % 1000


class PerBatch(States, KeyedBatchFunction):
    def process_batch(self, batch, keys, ctx):
        fired = keys.take(self.fired.get(keys))
        before = self.total.get(keys, default=0)
        totals = keys.cumulative_sum("v", start=before)
        self.total.update(keys, pc.add(before, keys.sum("v")))
        self.name.update(keys, keys.last("word"))
        self.mean.update(keys, pc.divide(self.total.get(keys).cast(pa.float64()), 3.0))
        last = keys.last("v").to_pylist()
        self.odd.update(keys, pa.array([v % 2 == 1 if v % 3 else None for v in last], pa.bool_()))
        self.spaced.set_current_namespace("n")
        self.spaced.update(keys, self.total.get(keys))
        self.spaced.set_current_namespace(None)
        self.spaced.update(keys, _first_truth(self.spaced.get(keys), batch, keys))
        low, high = keys.last("v"), keys.last(totals)
        span = pa.StructArray.from_arrays([low, high.cast(pa.float64())], ["low", "high"])
        whole = pa.array([value % 3 != 0 for value in low.to_pylist()], pa.bool_())
        self.span.update(keys, span, mask=whole)
        self.span.clear(keys, mask=pc.invert(whole))
        self.seen.add(keys, "v")
        told = ["told"] * batch.num_rows
        told = self.last.get(keys, told), self.last.contains(keys, told)
        values = batch.column("v").to_pylist()
        self.last.remove(keys, ["asked" if v % 3 == 0 else "nothing" for v in values])
        self.last.put(keys, "word", "v")
        self.most.add(keys, "v")
        self.mixed.add(keys, "v")
        for row in range(batch.num_rows):
            self._register(batch, keys, ctx, row)
        below = pc.less(batch.column("v"), 0)
        yield self.side, batch.filter(below).select(["user", "v"])
        yield pa.record_batch([batch.column("user"), batch.column("v"), totals, fired, *told], names=OUTPUT)

    def _register(self, batch, keys, ctx, row):
        """Timers have one timestamp per key; here a key has one for each of its rows."""
        mask = pa.array([place == keys.codes[row] for place in range(keys.count)], pa.bool_())
        value = batch.column("v")[row].as_py()
        ctx.timer_service().register_event_time_timers(keys, pa.array([value] * keys.count), mask=mask)
        ctx.timer_service().register_processing_time_timers(
            keys, pa.array([value + 1] * keys.count), mask=mask
        )
        ctx.timer_service().delete_processing_time_timers(keys, pa.array([value - 1] * keys.count), mask=mask)

    def on_timers(self, timestamps, keys, ctx):
        totals = self.total.get(keys, default=0)
        mixed = self.mixed.get(keys).cast(pa.int64())
        known = self.last.get(keys, ["x"] * len(keys)), self.last.contains(keys, ["y"] * len(keys))
        yield pa.record_batch([keys.values, timestamps, totals, mixed, *known], names=OUTPUT)
        self.total.update(keys, pc.add(totals, 1))
        self.fired.update(keys, timestamps)
        kept = [items[-3:] for items in self.seen.get(keys).to_pylist()]
        self.seen.update(keys, pa.array(kept, pa.list_(pa.int64())))
        stamps = timestamps.to_pylist()
        pairs = zip(stamps, totals.to_pylist(), strict=True)
        more = [[stamp, total] if stamp % 3 == 0 else None for stamp, total in pairs]
        self.seen.add_all(keys, pa.array(more, pa.list_(pa.int64())))
        self.mixed.clear(keys, mask=[stamp % 7 == 0 for stamp in stamps])
        self.last.remove(keys, ["x" if stamp % 3 else "nothing" for stamp in stamps])
        sums = [sum(value for _, value in items) % 1000 for items in self.last.items(keys).to_pylist()]
        self.last.put(keys, ["told" if stamp % 4 else "asked" for stamp in stamps], sums)
        odd = pa.array([stamp % 2 == 1 for stamp in stamps], pa.bool_())
        self.last.clear(keys, mask=odd)
        ctx.timer_service().register_event_time_timers(keys, pc.add(timestamps, 3), mask=odd)
        ctx.timer_service().delete_event_time_timers(keys, pc.add(timestamps, 2), mask=odd)
        ctx.timer_service().delete_processing_time_timers(keys, pc.add(timestamps, 4), mask=odd)
        self.total.clear(keys, mask=pa.array([stamp % 5 == 0 for stamp in stamps], pa.bool_()))


ELEMENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-5, 40), st.sampled_from(("x", "y")), st.booleans()),
    max_size=12,
)
"""Key, value, word, and whether the value is the event time too."""


class Life(RuleBasedStateMachine):
    """Two harnesses with the same pushes."""

    @initialize(
        backends=st.tuples(*[st.sampled_from(("hashmap", "rocksdb", own_backends.MemoryBackend))] * 2),
        keys=st.sampled_from(list(KEYS)),
        expire=RULES,
    )
    def begin(self, backends, keys, expire):
        self.now = 0
        self.expire = expire
        self.keys, self.key_type, self.side = KEYS[keys], KEY_TYPES[keys], SIDES[keys]
        self.both = self.harnesses(*backends)

    def harnesses(self, *backends):
        functions = (PerRecord(self.side, self.expire), PerBatch(self.side, self.expire))
        return [self.harness(*pair) for pair in zip(functions, backends, strict=True)]

    def harness(self, function: Any, backend: Any) -> KeyedProcessHarness:
        return KeyedProcessHarness(
            function,
            key=lambda row: row.user,
            key_type=self.key_type,
            backend=backend,
            sort_by_event_time=self.expire is not None and self.expire.by_reading,  # see ``key_times``
        )

    @rule(elements=ELEMENTS, ahead=st.none() | st.integers(-3, 15))
    def push(self, elements, ahead):
        for harness in self.both:
            rows = [
                ({"user": self.keys[user], "v": v, "word": word}, v if is_timed else None)
                for user, v, word, is_timed in elements
            ]
            harness.process_elements(
                rows, None if ahead is None else max(0, harness.current_watermark()) + ahead
            )
        self.compare()

    @rule(ahead=st.integers(0, 15))
    def pass_time(self, ahead):
        self.now += ahead
        for harness in self.both:
            harness.set_processing_time(self.now)
        self.compare()

    @rule(of=st.sampled_from((0, 1)), swapped=st.booleans())
    def restore(self, of, swapped):
        snapshot = self.both[of].snapshot()
        if self.expire is not None:
            assert stored_in(snapshot) == stored_in(self.both[1 - of].snapshot())
        if swapped:
            for harness in self.both:
                harness.close()
            self.both = self.harnesses("rocksdb", "hashmap")
        for harness in self.both:
            harness.clear_output()
            harness.restore(snapshot)
        self.compare()

    def compare(self):
        one, other = self.both
        assert self.by_key(one.output()) == self.by_key(other.output())
        assert self.by_key(one.side_output(self.side)) == self.by_key(other.side_output(self.side))
        for key in self.keys:
            assert one.state("spaced", key, "n") == other.state("spaced", key, "n")
            assert one.state("spaced", key) == other.state("spaced", key)
            for name in STATES:
                assert one.state(name, key) == other.state(name, key), (name, key)
            assert one.event_timers(key) == other.event_timers(key)
            assert one.processing_timers(key) == other.processing_timers(key)

    def by_key(self, rows: list[Any]) -> dict[Any, list[Any]]:
        """The rows of each key, in their order."""
        return {key: [tuple(row) for row in rows if row[0] == key] for key in self.keys}

    def teardown(self):
        for harness in getattr(self, "both", ()):
            harness.close()


def stored_in(snapshot: HarnessSnapshot) -> Counter[Any]:
    """All rows of a savepoint, the values with their stamps. The places of a list's elements are not compared."""
    found: Counter[Any] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(snapshot.shards):
            path = Path(folder) / str(number)
            path.write_bytes(data)
            file = canonical.CanonicalFile(path)
            for row in file.rows():
                table = file.tables[row.table]
                sub = b"" if table.kind is StateKind.LIST else row.sub
                found[table.name, row.key_group, row.key, row.namespace, sub, row.value] += 1
    return found


def _first_truth(stored: pa.Array, batch: Any, keys: Any) -> pa.Array:
    """Per key what is stored, or its first value that is not 0: what ``value() or v`` gives, row by row."""
    values = stored.to_pylist()
    for v, place in zip(batch.column("v").to_pylist(), keys.codes.tolist(), strict=True):
        values[place] = values[place] or v
    return pa.array(values, pa.int64())


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=tried(15), stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
