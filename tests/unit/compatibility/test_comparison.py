"""What a check says of each state: the stored ones beside those that functions declare when they are opened."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from sparkstate import (
    CheckpointedFunction,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
    errors,
)
from sparkstate.compatibility import comparison, declaration, differences
from sparkstate.compatibility.report import Outcome, Report, shortened
from sparkstate.handles import StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.settings import StateBackendSettings
from sparkstate.testing.manual_clock import ManualClock

SPACE = KeySpace(128, 4)
OWN = StateBackendSettings(type="custom", class_name="support.backends.own_backends:PlainBackend")
STORED = (
    StateMeta(uid="count", name="n", kind="value", key_type="LONG", namespace_type="", value_type="LONG"),
    StateMeta(
        uid="count",
        name="_timer_state/event_user-timers",
        kind="event-timers",
        key_type="LONG",
        namespace_type="",
        value_type="",
    ),
    StateMeta(
        uid="count", name="parts", kind="operator list", key_type="", namespace_type="", value_type="LONG"
    ),
    StateMeta(
        uid="count",
        name="rules",
        kind="broadcast",
        key_type="",
        namespace_type="",
        value_type="LONG",
        user_key_type="STRING",
    ),
)


class Count(KeyedProcessFunction, CheckpointedFunction):
    """Declares what ``STORED`` has; ``closed`` and ``fails`` are for the tests of its life."""

    value_type = Types.LONG()
    list_type = Types.LONG()
    name = "n"
    fails = False
    ttl: StateTtlConfig | None = None

    def __init__(self) -> None:
        self.closed = False
        self.restored: bool | None = None

    def initialize_state(self, ctx: Any) -> None:
        self.restored = ctx.is_restored()
        store = ctx.get_operator_state_store()
        store.get_list_state(ListStateDescriptor("parts", self.list_type))
        store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))

    def open(self, ctx: Any) -> None:
        if self.fails:
            raise RuntimeError("no database")
        self.parameter = ctx.get_job_parameter("p", "")
        descriptor = ValueStateDescriptor(self.name, self.value_type)
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        ctx.get_state(descriptor)

    def snapshot_state(self, ctx: Any) -> None:
        raise AssertionError("nothing is stored in a check")

    def process_element(self, value: Any, ctx: Any) -> None:
        raise AssertionError("no row is processed in a check")

    def close(self) -> None:
        self.closed = True


def declared(
    function: Count,
    uid: str = "count",
    key_type: Any = None,
    backend: StateBackendSettings = declaration.EITHER,
) -> declaration.DeclaredOperator:
    spec = kinds.spec(
        function, uid=uid, row_columns=(), key_columns=("k",), key_type=key_type or Types.LONG()
    )
    (found,) = declaration.of_operators([spec], SPACE, 2, {"p": "7"}, ManualClock(0), backend)
    return found


def compared(
    function: Count | None = None,
    *,
    stored: Any = STORED,
    backend: str = "rocksdb",
    may_drop: bool = False,
    **of: Any,
) -> dict[str, Any]:
    found = comparison.compare(
        stored, [declared(function or Count(), **of)], backend=backend, may_drop=may_drop
    )
    return {f"{one.operator}/{one.state}": one for one in found}


def changed(**fields: Any) -> Count:
    function = Count()
    vars(function).update(fields)
    return function


def test_what_is_declared_as_it_was_is_taken_as_it_is() -> None:
    found = compared()
    assert {name: one.outcome for name, one in found.items()} == {
        "count/n": Outcome.AS_IT_IS,
        "count/parts": Outcome.AS_IT_IS,
        "count/rules": Outcome.AS_IT_IS,
        "count/_timer_state/event_user-timers": Outcome.AS_IT_IS,
    }
    assert found["count/n"].stored == found["count/n"].declared == "value of LONG by LONG"
    assert found["count/rules"].stored == "broadcast of STRING to LONG"


def test_a_function_is_opened_as_at_a_start_without_state_and_closed() -> None:
    function = Count()
    declared(function)
    assert (function.restored, function.parameter, function.closed) == (False, "7", True)


def test_a_type_that_does_not_fit_names_state_field_and_both_types() -> None:
    found = compared(changed(value_type=Types.LIST(Types.STRING())))["count/n"]
    assert (found.outcome, found.field, found.stored) == (Outcome.REFUSED, "value type", "LONG")
    assert found.declared == Types.LIST(Types.STRING()).describe()
    for word in ("'n'", "'count'", "value type", "LONG", str(found.declared), "another name"):
        assert word in str(found.message)


def test_a_wider_type_is_migrated_as_the_backend_does_it() -> None:
    stored = (msgspec.structs.replace(STORED[0], value_type="INT"), *STORED[1:])
    on_rocksdb = compared(changed(value_type=Types.DOUBLE()), stored=stored)["count/n"]
    on_hashmap = compared(changed(value_type=Types.DOUBLE()), stored=stored, backend="hashmap")["count/n"]
    assert (on_rocksdb.outcome, on_hashmap.outcome) == (Outcome.ON_READ, Outcome.FULL_PASS)
    on_own = compared(changed(value_type=Types.DOUBLE()), stored=stored, backend="custom")["count/n"]
    assert on_own.outcome is Outcome.FULL_PASS
    of_operator = (*STORED[:2], msgspec.structs.replace(STORED[2], value_type="INT"), STORED[3])
    parts = compared(changed(list_type=Types.DOUBLE()), stored=of_operator)["count/parts"]
    assert parts.outcome is Outcome.FULL_PASS


@pytest.mark.parametrize(
    ("before", "now", "outcome", "told"),
    [
        (None, "1 hour", Outcome.FULL_PASS, "the time-to-live was none and is now 1 h of processing time"),
        ("1 hour", None, Outcome.FULL_PASS, "the time-to-live was 1 h of processing time and is now none"),
        (
            "1 hour",
            "2 hours",
            Outcome.FULL_PASS,
            "the time-to-live was 1 h of processing time and is now 2 h of processing time",
        ),
        (
            "2 hours",
            "1 hour",
            Outcome.AS_IT_IS,
            "the time-to-live was 2 h of processing time and is now 1 h of processing time",
        ),
        ("1 hour", "1 hour", Outcome.AS_IT_IS, None),
    ],
    ids=["on", "off", "longer", "shorter", "same"],
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb", "custom"])
def test_a_changed_time_to_live_is_told_beside_a_changed_type(
    backend: str, before: str | None, now: str | None, outcome: Outcome, told: str | None
) -> None:
    hours = {"1 hour": "TTL(processing,3600000) ", "2 hours": "TTL(processing,7200000) ", None: ""}
    for stored_type, more in (("LONG", None), ("INT", "the value: INT becomes LONG")):
        stored = (msgspec.structs.replace(STORED[0], value_type=hours[before] + stored_type), *STORED[1:])
        ttl = None if now is None else StateTtlConfig.new_builder(now).build()
        found = compared(changed(ttl=ttl), stored=stored, backend=backend)["count/n"]
        assert (found.outcome, found.message) == (outcome, "; ".join(filter(None, (more, told))) or None)
    refused = compared(changed(ttl=ttl, value_type=Types.STRING()), stored=stored, backend=backend)["count/n"]
    assert (refused.outcome, refused.stored) == (Outcome.REFUSED, "INT")


@pytest.mark.parametrize("before", ["TTL(processing,5000) ", "TTL(event,1) "])
def test_a_backend_of_ones_own_that_knows_no_time_to_live_refuses_one_as_its_start_does(before: str) -> None:
    stored = (msgspec.structs.replace(STORED[0], value_type=f"{before}LONG"), *STORED[1:])
    operator = declared(Count(), backend=OWN)
    found, *others = comparison.compare(stored, [operator], backend="custom", may_drop=False)
    assert (found.state, found.outcome, found.field) == ("n", Outcome.REFUSED, "time-to-live")
    assert str(found.message).endswith("whose stores derive from RowStore")
    assert {one.outcome for one in others} == {Outcome.AS_IT_IS}
    with pytest.raises(errors.StateError, match="which the state backend does not know"):
        declared(changed(ttl=StateTtlConfig.new_builder("5 s").build()), backend=OWN)


def test_another_key_refuses_state_and_timers() -> None:
    found = compared(key_type=Types.STRING())
    refused = {name for name, one in found.items() if one.outcome is Outcome.REFUSED}
    assert refused == {"count/n", "count/_timer_state/event_user-timers"}
    assert found["count/n"].field == "key type"


def test_new_and_left_states_are_told() -> None:
    found = compared(changed(name="total"))
    assert (found["count/total"].outcome, found["count/total"].stored) == (Outcome.NEW, None)
    assert (found["count/n"].outcome, found["count/n"].declared) == (Outcome.NOT_DECLARED, None)
    assert "open() does not declare it" in str(found["count/n"].message)


def test_state_of_an_operator_that_is_gone_is_refused_or_dropped_and_its_heir_is_named() -> None:
    refused = compared(uid="counts")
    assert refused["count/n"].outcome is Outcome.REFUSED
    assert "'counts' is new and declares the same states" in str(refused["count/n"].message)
    assert "allowNonRestoredState: true" in str(refused["count/n"].message)
    assert refused["counts/n"].outcome is Outcome.NEW
    dropped = compared(uid="counts", may_drop=True)
    assert {one.outcome for name, one in dropped.items() if name.startswith("count/")} == {Outcome.DROPPED}


def test_a_type_that_this_version_cannot_read_is_refused() -> None:
    stored = (msgspec.structs.replace(STORED[0], value_type="QUATERNION"),)
    found = compared(stored=stored)["count/n"]
    assert found.outcome is Outcome.REFUSED
    assert "QUATERNION" in str(found.message)


def test_a_keyed_and_an_operator_state_of_one_name_are_two() -> None:
    stored = (msgspec.structs.replace(STORED[2], name="n", value_type="STRING"), STORED[0])
    outcomes = [
        one.outcome
        for one in comparison.compare(stored, [declared(Count())], backend="rocksdb", may_drop=False)
        if one.state == "n"
    ]
    assert outcomes == [Outcome.AS_IT_IS, Outcome.NOT_DECLARED]


def test_an_error_of_open_names_the_operator() -> None:
    function = changed(fails=True)
    with pytest.raises(
        errors.UserCodeError, match=r"operator 'count': open\(\) raised RuntimeError: no database"
    ):
        declared(function)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class OnBatches(KeyedBatchFunction):
    """Of Arrow batches."""

    def open(self, ctx: Any) -> None:
        ctx.get_state(ValueStateDescriptor("n", Types.LONG()))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> None:
        """No row comes."""


class OnTwo(KeyedCoProcessFunction):
    """Of two streams."""

    def open(self, ctx: Any) -> None:
        ctx.get_state(ValueStateDescriptor("n", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        """No row comes."""

    def process_element2(self, value: Any, ctx: Any) -> None:
        """No row comes."""


class OnRules(KeyedBroadcastProcessFunction):
    """Of a stream and rules."""

    def open(self, ctx: Any) -> None:
        ctx.get_state(ValueStateDescriptor("n", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        """No row comes."""

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        """No row comes."""


@pytest.mark.parametrize(
    ("function", "fields", "wanted"),
    [
        pytest.param(OnBatches(), {}, {"n": "value"}, id="batches"),
        pytest.param(OnTwo(), {"second_columns": ()}, {"n": "value"}, id="two-inputs"),
        pytest.param(
            OnRules(),
            {"second_columns": (), "states": (RULES,)},
            {"n": "value", "rules": "broadcast"},
            id="broadcast",
        ),
    ],
)
def test_every_kind_of_function_is_opened(
    function: Any, fields: dict[str, Any], wanted: dict[str, str]
) -> None:
    spec = kinds.spec(function, uid="x", row_columns=(), key_columns=("k",), key_type=Types.LONG(), **fields)
    (found,) = declaration.of_operators([spec], SPACE, 3, {}, ManualClock(0))
    assert {state.name: str(state.kind) for state in found.states} == wanted


# -- differences of the job --------------------------------------------------------------------------------------------


def test_a_key_space_that_differs_names_field_and_both_values() -> None:
    found = differences.of_key_space(SPACE, 256, 8, 5)
    assert [(one.field, one.stored, one.declared) for one in found] == [
        ("spec.maxParallelism", "128", "256"),
        ("spec.shards", "4", "8"),
        ("spec.slots", "4 shards", "5"),
    ]
    assert all(one.refused for one in found)
    assert differences.of_key_space(SPACE, 128, None, 4) == ()


def test_files_of_one_backend_are_refused_by_the_other_and_a_savepoint_is_not() -> None:
    (refused,) = differences.of_backend({"rocksdb"}, "rocksdb", "hashmap")
    assert refused.refused
    assert "take a canonical savepoint" in refused.message
    (moved,) = differences.of_backend({"canonical"}, "rocksdb", "hashmap")
    assert not moved.refused
    (grown,) = differences.of_backend({"canonical"}, "hashmap", "rocksdb")
    assert not grown.refused
    assert differences.of_backend({"rocksdb"}, "rocksdb", "rocksdb") == ()


FILES, KAFKA, RATE = '{"logOffset":7}', '{"orders":{"0":12}}', "42"


def test_sources_are_counted_and_told_apart_as_far_as_their_offsets_show() -> None:
    assert differences.of_sources((), ["file"]) == (), "a snapshot without a position"
    assert differences.of_sources((FILES, KAFKA, RATE, "-"), ["file", "kafka", "rate", "file"]) == ()
    (fewer,) = differences.of_sources((FILES, KAFKA), ["file"])
    assert (fewer.refused, fewer.stored, fewer.declared) == (True, "file, kafka", "file")
    assert "2 sources" in fewer.message
    (swapped,) = differences.of_sources((FILES, KAFKA), ["kafka", "file"])
    assert swapped.refused
    assert "source 1 of the stored position is file, and the job reads kafka" in swapped.message
    assert differences.of_sources(('{"logOffset"', "{}", "[1]"), ["file", "kafka", "rate"]) == (), "not told"


def test_the_order_of_sources_of_one_format_is_said_to_be_unknown() -> None:
    (told,) = differences.notices((FILES, KAFKA, FILES), ["file", "kafka", "file"])
    assert "several sources of the format file" in told
    assert differences.notices((FILES, KAFKA), ["file", "kafka"]) == ()
    assert differences.notices((), ["file", "file"]) == (), "nothing is stored, so no order is known"


def test_a_rescale_is_told_and_refuses_nothing() -> None:
    (found,) = differences.of_slots(2, 3)
    assert not found.refused
    assert differences.of_slots(2, 2) == ()


# -- the report --------------------------------------------------------------------------------------------------------


def report(states: Any) -> Report:
    return Report(
        job="a/b/c", url="file:///s", kind="checkpoint", id=1, epoch=2, found="x", states=tuple(states)
    )


def test_a_report_is_short_however_many_states_are_refused() -> None:
    one = compared(changed(value_type=Types.STRING()))["count/n"]
    many = report([dataclasses.replace(one, state=f"n{number}") for number in range(200)])
    assert not many.compatible
    assert many.document()["counts"]["refused"] == 200
    told = many.document()["message"]
    assert told.startswith("state 'n' of operator 'count'")
    assert "and " in told[-20:]
    assert len(told) < 1600
    assert "states" not in shortened(many.document())


def test_a_report_without_refusals_is_compatible() -> None:
    found = report(compared().values())
    assert (found.compatible, found.document()["message"]) == (True, "")
