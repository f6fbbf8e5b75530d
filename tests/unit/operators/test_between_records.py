"""Nothing of one record, timer or attempt is left behind for the next: times, namespaces, counts of elements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate import errors
from sparkstate.connected_functions import KeyedBroadcastProcessFunction
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory import weighing
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import KeyedBroadcastHarness, KeyedProcessHarness

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
ERRORS = pa.schema([("user", pa.string()), ("amount", pa.int64()), ("error", pa.string())])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def expiring(name: str, ms: int) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor(name, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(ms).use_event_time().build())
    return descriptor


class Raise(KeyedBroadcastProcessFunction):
    """A broadcast row adds one to the values of all keys."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(expiring("value", 100))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        if row.n:
            self.value.update(row.n)
        yield row.k, self.value.value()

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        ctx.apply_to_keyed_state(expiring("value", 100), lambda key, state: state.update(state.value() + 1))


@BACKENDS
@pytest.mark.parametrize("another_before", [False, True])
@pytest.mark.parametrize("restored", [False, True])
def test_what_a_broadcast_row_writes_has_its_time(backend: str, another_before: bool, restored: bool) -> None:
    of_user: Any = {"key": lambda row: row.k, "key_type": Types.STRING(), "backend": backend}
    with KeyedBroadcastHarness(Raise(), RULES, **of_user) as harness:
        harness.process_elements([({"k": "a", "n": 1}, 10)], 10)
        if another_before:
            harness.process_elements([({"k": "b", "n": 0}, 1_000_000)])
        if restored:
            harness.restore(harness.snapshot())
        harness.process_broadcast_element({"name": "r"}, timestamp=20)
        harness.process_watermark(119)
        harness.process_elements([({"k": "a", "n": 0}, 140)])
        harness.process_watermark(130)
        harness.process_elements([({"k": "a", "n": 0}, 140)])
        assert [row for row in harness.output() if row[0] == "a"][-2:] == [("a", 2), ("a", None)]


class AtTheEnd(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(expiring("value", 10))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.value.update(1)
        ctx.timer_service().register_event_time_timer(2**63 - 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.value.value()


@BACKENDS
@pytest.mark.parametrize("watermarks", [1, 5])
def test_the_end_of_the_input_brings_nothing_back(backend: str, watermarks: int) -> None:
    """However often a sweep has come by before."""
    with KeyedProcessHarness(
        AtTheEnd(), key=lambda row: row.k, key_type=Types.LONG(), backend=backend
    ) as harness:
        harness.process_elements([({"k": key}, 5) for key in range(1_000)], 6)
        for number in range(watermarks):
            harness.process_watermark(10_000 + number)
        harness.process_elements([({"k": 1_000}, 10_010)])
        harness.end_input()
        assert sorted(harness.output()) == [*((key, None) for key in range(1_000)), (1_000, 1)]


class FailsInNamespace(KeyedProcessFunction):
    fails = False

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.seen.update([*self.seen.get(), row.amount])
        self.counts.put(row.amount, 1)
        for state in (self.seen, self.counts):
            state.set_current_namespace("n")
        self.seen.add(-row.amount)
        self.counts.put(-row.amount, 1)
        if self.fails:
            raise ConnectionError("a service is away for a moment")


@pytest.mark.parametrize("limit", [None, 0], ids=["hashmap", "rocksdb"])
def test_an_attempt_after_one_that_failed_in_a_namespace_begins_in_the_default_one(
    limit: int | None, tmp_path: Path
) -> None:
    function = FailsInNamespace()
    side = Side(tmp_path, limit, function)
    operator = side.operator
    for epoch, amount in enumerate((5, 6)):
        function.fails = epoch == 1
        if function.fails:
            lost = operator.begin(epoch, MIN_WATERMARK, 0)
            with pytest.raises(errors.UserCodeError, match="away for a moment"):
                operator.process_batch(lost, ops.make_batch(("a", amount, 1)))
            lost.close()
            function.fails = False
        overlay = operator.begin(epoch, MIN_WATERMARK, 0)
        operator.process_batch(overlay, ops.make_batch(("a", amount, 1)))
        operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(operator, overlay)])
        overlay.close()
    assert operator.read_value("seen", "a") == [5, 6]
    assert operator.read_value("seen", "a", "n") == [-5, -6]
    assert operator.read_value("counts", "a") == {5: 1, 6: 1}
    assert operator.read_value("counts", "a", "n") == {-5: 1, -6: 1}
    side.close()


class WritesAgain(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.latest = ctx.get_map_state(MapStateDescriptor("latest", Types.LONG(), Types.LONG()))
        self.ten = ctx.get_list_state(ListStateDescriptor("ten", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.latest.put(row.amount % 10, row.amount)
        self.ten.update(range(row.amount, row.amount + 10))
        if row.amount % 7 == 3:
            raise ValueError("rejected")
        yield row.user, row.amount


@pytest.mark.parametrize("on_error", ["fail", "side-output"])
def test_an_entry_that_is_written_again_weighs_as_one(on_error: str, tmp_path: Path) -> None:
    rejects = on_error == "side-output"
    options: dict[str, Any] = {"on_error": on_error, "side_schemas": {"errors": ERRORS}} if rejects else {}
    side = Side(tmp_path, None, WritesAgain(), **options)

    def weight(rounds: int) -> int:
        overlay = side.operator.begin(1, MIN_WATERMARK, 0)
        for _ in range(rounds):
            amounts = [amount for amount in range(40) if rejects or amount % 7 != 3]
            side.operator.process_batch(overlay, ops.make_batch(*[("a", amount, 1) for amount in amounts]))
        found = weighing.state_bytes(overlay)
        overlay.close()
        return found

    assert weight(1) > 1_000
    assert weight(50) <= 1.1 * weight(1)
    side.close()
