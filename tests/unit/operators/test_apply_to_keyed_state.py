"""``apply_to_keyed_state``: every key of the slot once, as the epoch sees it, against a plain model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.backends.own_backends import MemoryBackend
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate import errors
from sparkstate.connected_functions import KeyedBroadcastProcessFunction
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.two_inputs import key_scan
from sparkstate.serde.row import Row
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import KeyedBroadcastHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
VALUE = ValueStateDescriptor("value", Types.LONG())
PICKLED = ValueStateDescriptor("pickled", Types.LIST(Types.LONG()))
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.LONG(), Types.LONG())
SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
STATES = {state.name: state for state in (VALUE, PICKLED, LIST, MAP, SUM)}
LIMITS = {"hashmap": None, "rocksdb": 1 << 30, "rocksdb on disk": 0}


class Applying(KeyedBroadcastProcessFunction):
    """A keyed row puts its amount into a state; a rule does something to every key that has something in one."""

    def open(self, ctx: Any) -> None:
        self.states = {
            "value": ctx.get_state(VALUE),
            "pickled": ctx.get_state(PICKLED),
            "list": ctx.get_list_state(LIST),
            "map": ctx.get_map_state(MAP),
            "sum": ctx.get_reducing_state(SUM),
        }
        self.visits = ctx.get_state(ValueStateDescriptor("visits", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> None:
        put(self.states[row.name], row.name, row.amount)
        self.states["value"].set_current_namespace("other")
        self.states["value"].update(row.amount)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Iterator[Any]:
        seen: list[Any] = []

        def change(key: Any, state: Any) -> None:
            seen.append((key, shown(state, rule.name)))
            self.visits.update((self.visits.value() or 0) + 1)
            if rule.clears:
                state.clear()
            elif rule.to is not None:
                put(self.states[rule.to], rule.to, rule.amount)

        ctx.apply_to_keyed_state(STATES[rule.name], change)
        yield from seen


def put(state: Any, name: str, amount: int) -> None:
    match name:
        case "value":
            state.update(amount)
        case "pickled":
            state.update([*(state.value() or []), amount])
        case "map":
            state.put(amount % 3, amount)
        case _:
            state.add(amount)


def shown(state: Any, name: str) -> Any:
    match name:
        case "value" | "pickled":
            return state.value()
        case "map":
            return dict(state.items())
        case "sum":
            return state.get()
        case _:
            return list(state.get())


class Model:
    """What a slot with these keys must have."""

    def __init__(self) -> None:
        self.states: dict[str, dict[Any, Any]] = {name: {} for name in STATES}
        self.visits: dict[Any, int] = {}

    def put(self, name: str, key: Any, amount: int) -> None:
        state = self.states[name]
        match name:
            case "value":
                state[key] = amount
            case "map":
                state[key] = {**state.get(key, {}), amount % 3: amount}
            case "sum":
                state[key] = state.get(key, 0) + amount
            case _:
                state[key] = [*state.get(key, []), amount]

    def apply(self, rule: dict[str, Any]) -> list[Any]:
        before = dict(self.states[rule["name"]])
        for key in before:
            self.visits[key] = self.visits.get(key, 0) + 1
            if rule["clears"]:
                del self.states[rule["name"]][key]
            elif rule["to"] is not None:
                self.put(rule["to"], key, rule["amount"])
        return list(before.items())


NAMES = st.sampled_from(sorted(STATES))
ROWS = st.lists(st.tuples(st.sampled_from("abcdefgh"), NAMES, st.integers(0, 9)), max_size=12)
RULE = st.fixed_dictionaries(
    {"name": NAMES, "to": st.none() | NAMES, "amount": st.integers(0, 9), "clears": st.booleans()}
)
EPOCHS = st.lists(st.tuples(st.lists(RULE, max_size=3), ROWS, st.booleans()), max_size=4)


@pytest.mark.parametrize("backend", LIMITS)
@settings(max_examples=tried(20), deadline=None)
@given(epochs=EPOCHS, has_numbers=st.booleans(), at_once=st.integers(1, 4), settle=st.integers(1, 4))
def test_every_key_of_the_epoch_is_visited_once(
    backend: str, epochs: list[Any], has_numbers: bool, at_once: int, settle: int
) -> None:
    """``has_numbers``: keys whose numbers have a place in columns, and go to disk as sorted runs."""
    model = Model()
    names = {letter: 100 - ord(letter) if has_numbers else letter for letter in "abcdefgh"}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_scan, "KEYS_AT_ONCE", at_once)
        patch.setattr(key_scan, "SETTLE_ELEMENTS", settle)
        side = Side(
            Path(folder),
            LIMITS[backend],
            Applying(),  # type: ignore[arg-type]
            row_columns=("name", "amount"),
            second_columns=("name",),
            key_columns=("key",),
            key_type=Types.LONG() if has_numbers else Types.STRING(),
            output_schema=None,
            states=(RULES,),
        )
        operator: Any = side.operator
        for number, (rules, letters, is_lost_first) in enumerate(epochs):
            rows = [(names[letter], *rest) for letter, *rest in letters]
            if is_lost_first:
                run_epoch(operator, number, rules, rows).close()
            overlay = run_epoch(operator, number, rules, rows)
            wanted = [sorted(model.apply(rule)) for rule in rules]
            found, told = overlay.rows(), []
            for visits in wanted:
                told.append(sorted(found[: len(visits)]))
                found = found[len(visits) :]
            assert (told, found) == (wanted, [])
            for key, name, amount in rows:
                model.put(name, key, amount)
            commit_overlays([(operator, overlay)])
            overlay.close()
        for name, state in {**model.states, "visits": model.visits}.items():
            stored = {key: operator.read_value(name, key) for key in names.values()}
            assert {key: value for key, value in stored.items() if value not in (None, [], {})} == state
        side.close()


def run_epoch(operator: Any, number: int, rules: list[Any], rows: list[Any]) -> Any:
    overlay = operator.begin(number + 1, MIN_WATERMARK, 0)
    elements = [Row.of(**rule) for rule in rules]
    none = [None] * len(rules)
    operator.process_rows(overlay, none, none, none, elements, 1)
    keys = [key for key, _, _ in rows]
    kgs = [ops.key_group(key) for key in keys]
    keyed = [Row.of(name=name, amount=amount) for _, name, amount in rows]
    operator.process_rows(overlay, keys, kgs, [None] * len(rows), keyed, 0)
    operator.finish(overlay, MIN_WATERMARK)
    return overlay


def test_each_subtask_visits_its_own_keys_also_after_a_change_of_their_number_and_of_the_backend() -> None:
    rule = {"name": "sum", "to": "sum", "amount": 100, "clears": False}
    options: dict[str, Any] = {"key": lambda row: row.key, "key_type": Types.STRING(), "shards": 4}
    with KeyedBroadcastHarness(Applying(), RULES, backend="hashmap", parallelism=1, **options) as harness:
        for number, key in enumerate("abcdefgh"):
            harness.process_element({"key": key, "name": "sum", "amount": number})
        harness.process_broadcast_element(rule)
        assert sorted(harness.output()) == [(key, number) for number, key in enumerate("abcdefgh")]
        snapshot = harness.snapshot()
    with KeyedBroadcastHarness(Applying(), RULES, backend="rocksdb", parallelism=3, **options) as harness:
        harness.restore(snapshot)
        harness.process_broadcast_element(rule)
        assert sorted(harness.output()) == [(key, 100 + number) for number, key in enumerate("abcdefgh")]
        assert harness.state("sum", "h") == 207


class Expiring(KeyedBroadcastProcessFunction):
    """A rule yields the keys that it visits, and reads nothing."""

    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, ctx: Any) -> None:
        def living(kind: Any, *types: Any) -> Any:
            descriptor = kind(*types)
            descriptor.enable_time_to_live(self.config)
            return descriptor

        long = Types.LONG()
        self.descriptors = {
            "value": living(ValueStateDescriptor, "value", long),
            "list": living(ListStateDescriptor, "list", long),
            "map": living(MapStateDescriptor, "map", long, long),
        }
        self.states = {
            "value": ctx.get_state(self.descriptors["value"]),
            "list": ctx.get_list_state(self.descriptors["list"]),
            "map": ctx.get_map_state(self.descriptors["map"]),
        }

    def process_element(self, row: Any, ctx: Any) -> None:
        for name, state in self.states.items():
            put(state, name, row.amount)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Iterator[Any]:
        seen: list[Any] = []
        ctx.apply_to_keyed_state(self.descriptors[rule.name], lambda key, state: seen.append(key))
        yield from seen


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", MemoryBackend])
@pytest.mark.parametrize("name", ["value", "list", "map"])
def test_a_key_whose_state_has_expired_is_not_visited_though_it_is_still_stored(
    backend: Any, name: str
) -> None:
    config = StateTtlConfig.new_builder(100).disable_cleanup_in_background()
    config.update_ttl_on_read_and_write()
    for shows_expired in (False, True):
        if shows_expired:
            config.return_expired_if_not_cleaned_up()
        with KeyedBroadcastHarness(
            Expiring(config.build()),
            RULES,
            key=lambda row: row.key,
            key_type=Types.STRING(),
            backend=backend,
        ) as harness:
            harness.process_element({"key": "old", "amount": 1})
            for time in (60, 99):
                harness.set_processing_time(time)
                harness.process_element({"key": "new", "amount": 1})
                harness.process_broadcast_element({"name": name})  # no access: it keeps nothing alive
                assert sorted(harness.output()) == ["new", "old"]
                harness.clear_output()
            harness.set_processing_time(100)
            harness.process_broadcast_element({"name": name})
            assert sorted(harness.output()) == (["new", "old"] if shows_expired else ["new"])


class Wrong(Applying):
    def __init__(self, call: Any) -> None:
        self.call = call

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        self.context = ctx
        return self.call(self, ctx)

    def process_element(self, row: Any, ctx: Any) -> None:
        super().process_element(row, ctx)
        if hasattr(self, "context"):
            self.context.apply_to_keyed_state(VALUE, lambda key, state: None)


def yields(key: Any, state: Any) -> Iterator[Any]:
    yield key


def fails(key: Any, state: Any) -> None:
    raise ValueError("no such limit")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda f, ctx: ctx.apply_to_keyed_state(VALUE, yields), "the function yields, and nothing takes"),
        (
            lambda f, ctx: ctx.apply_to_keyed_state(VALUE, fails),
            r"apply_to_keyed_state\('value'\) at key 'a': ValueError: no such limit",
        ),
        (lambda f, ctx: ctx.apply_to_keyed_state("value", print), "takes the descriptor of a keyed state"),
        (
            lambda f, ctx: ctx.apply_to_keyed_state(ValueStateDescriptor("new", Types.LONG()), print),
            "'new' was first asked for after open",
        ),
        (
            lambda f, ctx: ctx.apply_to_keyed_state(ValueStateDescriptor("value", Types.STRING()), print),
            "'value' is declared twice",
        ),
        (
            lambda f, ctx: ctx.apply_to_keyed_state(
                VALUE, lambda key, state: ctx.apply_to_keyed_state(VALUE, print)
            ),
            "was called by the function that it calls",
        ),
        (
            lambda f, ctx: [ctx.apply_to_keyed_state(VALUE, lambda *_: None), f.states["value"].value()],
            "no key is set",
        ),
        (lambda f, ctx: None, "belongs to process_broadcast_element"),
    ],
    ids=[
        "generator",
        "raises",
        "a name",
        "unknown state",
        "other type",
        "nested",
        "behind it",
        "kept context",
    ],
)
def test_wrong_uses_are_refused(call: Any, told: str) -> None:
    row = {"key": "a", "name": "value", "amount": 1}
    with KeyedBroadcastHarness(
        Wrong(call), RULES, key=lambda row: row.key, key_type=Types.STRING()
    ) as harness:
        harness.process_element(row)

        def both() -> None:
            harness.process_broadcast_element({"name": "r"})
            harness.process_element(row)

        with pytest.raises(errors.UserCodeError, match=told):
            both()
