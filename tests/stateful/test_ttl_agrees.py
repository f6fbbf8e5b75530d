"""The random life of state that expires, against plain Python: rows, timers, clocks, savepoints, and restores on
another backend, in other numbers of subtasks, and under another time-to-live."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings, stateful
from support.backends.own_backends import MemoryBackend
from support.expiring.ttl_model import Model, Moment, Rule
from support.faults import tried

from sparkstate.backends import canonical
from sparkstate.functions import KeyedProcessFunction, TimeDomain
from sparkstate.serde import expiring
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.testing.harness import HarnessSnapshot, KeyedProcessHarness

BACKENDS = st.sampled_from(["hashmap", "rocksdb", MemoryBackend])
KEYS = st.sampled_from(["a", "b", "c", "d"])
WRITES = ["update", "clear", "fold", "add", "replace", "put", "remove"]
READS = ["value", "folded", "list", "map", "get"]
OPERATIONS = st.sampled_from([*WRITES, *READS, "timer", "wall-timer"])
STEPS = st.lists(st.tuples(OPERATIONS, st.integers(0, 60)), min_size=1, max_size=4)
ROWS = st.lists(st.tuples(KEYS, STEPS, st.none() | st.integers(0, 60)), max_size=3)
RULES = st.builds(Rule, st.none() | st.integers(1, 25), st.booleans(), st.booleans())
AT_TIMER = [("value", 0), ("list", 0), ("fold", 1), ("add", 7), ("put", 1), ("map", 0)]


class Obedient(KeyedProcessFunction):
    """Does what a row says, and yields the answers."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def open(self, ctx):
        def living(descriptor: StateDescriptor) -> Any:
            if (config := self.rule.config()) is not None:
                descriptor.enable_time_to_live(config)
            return descriptor

        self.value = ctx.get_state(living(ValueStateDescriptor("value", Types.LONG())))
        self.list = ctx.get_list_state(living(ListStateDescriptor("list", Types.TUPLE([Types.LONG()]))))
        entries = MapStateDescriptor("map", Types.LONG(), Types.LIST(Types.LONG()))
        self.map = ctx.get_map_state(living(entries))
        folded = ReducingStateDescriptor("folded", lambda one, two: one + two, Types.LONG())
        self.folded = ctx.get_reducing_state(living(folded))

    def process_element(self, value, ctx):
        yield value["key"], [self.do(operation, argument, ctx) for operation, argument in value["steps"]]

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), [self.do(operation, argument, ctx) for operation, argument in AT_TIMER]

    def do(self, operation: str, argument: int, ctx: Any) -> Any:
        match operation:
            case "value":
                return self.value.value()
            case "update":
                self.value.update(argument)
            case "clear":
                self.value.clear()
            case "fold":
                self.folded.add(argument)
            case "folded":
                return self.folded.get()
            case "list":
                return [value for (value,) in self.list]
            case "add":
                self.list.add((argument,))
            case "replace":
                self.list.update([(argument,), (argument + 1,)])
            case "map":
                return {name: value for name, [value] in self.map.items()}
            case "get":
                found = self.map.get(argument % 3)
                return None if found is None else found[0]
            case "put":
                self.map.put(argument % 3, [argument])
            case "remove":
                self.map.remove(argument % 3)
            case "timer":
                ctx.timer_service().register_event_time_timer(argument)
            case "wall-timer":
                ctx.timer_service().register_processing_time_timer(argument)
        return None


class Life(stateful.RuleBasedStateMachine):
    @stateful.initialize(rule=RULES, backend=BACKENDS)
    def begin(self, rule: Rule, backend: Any) -> None:
        self.model = Model(rule)
        self.processing, self.watermark = 0, None
        self.timers: dict[TimeDomain, set[tuple[int, str]]] = {domain: set() for domain in TimeDomain}
        self.harness = self.made(rule, backend, 1)

    def made(self, rule: Rule, backend: Any, parallelism: int) -> KeyedProcessHarness:
        return KeyedProcessHarness(
            Obedient(rule),
            key=lambda row: row["key"],
            key_type=Types.STRING(),
            backend=backend,
            shards=4,
            parallelism=parallelism,
        )

    # --- epochs

    @stateful.rule(rows=ROWS, advance=st.none() | st.integers(1, 30))
    def epoch(self, rows: list[Any], advance: int | None) -> None:
        moves = None if advance is None else advance + (self.watermark or 0)
        expected = [(key, self.steps(key, steps, self.moment(stamp))) for key, steps, stamp in rows]
        expected += self.ends(moves)
        elements = [({"key": key, "steps": steps}, stamp) for key, steps, stamp in rows]
        self.harness.process_elements(elements, moves)
        self.compare(expected)

    @stateful.rule(milliseconds=st.integers(1, 30))
    def time_passes(self, milliseconds: int) -> None:
        self.processing += milliseconds
        expected = self.ends(None)
        self.harness.set_processing_time(self.processing)
        self.compare(expected)

    def moment(self, event: int | None = None, fires: bool = False) -> Moment:
        return Moment(self.processing, self.watermark, event, fires)

    def steps(self, key: str, steps: list[Any], moment: Moment) -> list[Any]:
        answers = []
        for operation, argument in steps:
            if operation in ("timer", "wall-timer"):
                domain = TimeDomain.EVENT_TIME if operation == "timer" else TimeDomain.PROCESSING_TIME
                self.timers[domain].add((argument, key))
                answers.append(None)
            else:
                answers.append(self.model.do(key, operation, argument, moment))
        return answers

    def ends(self, watermark: int | None) -> list[Any]:
        """Processing-time timers fire, then the watermark advances."""
        fired = self.fired(TimeDomain.PROCESSING_TIME, self.processing)
        answers = [(key, self.steps(key, AT_TIMER, self.moment())) for _, key in fired]
        if watermark is not None:
            for stamp, key in self.fired(TimeDomain.EVENT_TIME, watermark):
                answers.append((key, self.steps(key, AT_TIMER, self.moment(stamp, True))))
            self.watermark = watermark
        return answers

    def fired(self, domain: TimeDomain, until: int) -> list[tuple[int, str]]:
        due = sorted(timer for timer in self.timers[domain] if timer[0] <= until)
        self.timers[domain] -= set(due)
        return due

    def compare(self, expected: list[Any]) -> None:
        assert sorted(self.harness.output(), key=repr) == sorted(expected, key=repr)
        self.harness.clear_output()

    # --- lives

    @stateful.rule(rule=st.none() | RULES, backend=BACKENDS, parallelism=st.integers(1, 3))
    def restored(self, rule: Rule | None, backend: Any, parallelism: int) -> None:
        """From a savepoint, which holds nothing that has expired."""
        rule = rule or self.model.rule
        self.epoch([], None)  # as in a job, where a savepoint comes behind an epoch
        savepoint = self.harness.snapshot()
        self.check_stamps(savepoint)
        self.harness.close()
        self.model = self.model.restored(rule, self.moment())
        self.harness = self.made(rule, backend, 1)
        self.harness.restore(savepoint, parallelism)

    def check_stamps(self, savepoint: HarnessSnapshot) -> None:
        ttl = self.model.rule.length
        now = self.moment().judging(self.model.rule)
        found = 0
        with tempfile.TemporaryDirectory() as folder:
            for data in savepoint.shards:
                path = Path(folder) / canonical.FORMAT
                path.write_bytes(data)
                file = canonical.CanonicalFile(path)
                for row in file.rows():
                    if file.tables[row.table].value_type is None:
                        continue
                    found += 1
                    if ttl is not None and now is not None:
                        stamp = expiring.stamp_of(row.value)
                        assert stamp == expiring.NO_STAMP or stamp + ttl > now
        assert found == self.live_values(now)

    def live_values(self, now: int | None) -> int:
        pairs = []
        for state in self.model.keys.values():
            pairs += [state.value, state.folded, *state.elements, *state.entries.values()]
        return sum(self.model.lives(pair, now) for pair in pairs)

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.close()


Life.TestCase.settings = settings(max_examples=tried(20), stateful_step_count=25, deadline=None)
test_state_that_expires_is_what_the_definition_says = Life.TestCase
