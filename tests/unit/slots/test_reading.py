"""What ``state get`` reads of a slot: the contents of windows, whose namespaces are tuples or numbers."""

from __future__ import annotations

import base64
import dataclasses
import json
import struct
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from support.slots import slots

from sparkstate import errors, windows
from sparkstate.functions import AggregateFunction
from sparkstate.serde.types import Types
from sparkstate.slots import protocol
from sparkstate.windows import ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
from sparkstate.windows.assigner import WindowAssigner


class Totals(AggregateFunction):
    """The sum of ``v``."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.v)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))


def windowed(folder: Path, backend: str, assigner: WindowAssigner) -> slots.Slot:
    plan = slots.plan(folder, backend=backend)
    function = windows.over(assigner).aggregate(Totals(), accumulator_type=Types.LONG())
    spec = dataclasses.replace(
        plan.operators[0], function=function, output_schema=pa.schema([("total", pa.int64())])
    )
    slot = slots.Slot(folder / "slot", dataclasses.replace(plan, operators=(spec,)))
    slot.restore()
    return slot


def read(slot: slots.Slot, state: str, namespace: Any) -> Any:
    request = protocol.ReadState(
        operator="sum",
        state=state,
        key='"a"',
        key_group=0,
        namespace=None if namespace is None else json.dumps(namespace),
    )
    return json.loads(slot.client.call(request, protocol.StateValue).value)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_the_windows_of_a_key_keep_is_read_by_start_and_end(tmp_path: Path, backend: str) -> None:
    slot = windowed(tmp_path, backend, TumblingProcessingTimeWindows.of("5 min"))
    try:
        slot.epoch(0, slots.rows(("a", 3), ("a", 4)))
        assert read(slot, "_window/contents", [0, 300_000]) == 7
        assert read(slot, "_window/contents", [300_000, 600_000]) is None
        assert read(slot, "_window/contents", None) is None
        with pytest.raises(errors.SparkstateError, match="cannot be a namespace"):
            read(slot, "_window/contents", {"start": 0})
    finally:
        slot.close()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_the_sessions_of_a_key_keep_is_read_by_their_place(tmp_path: Path, backend: str) -> None:
    slot = windowed(tmp_path, backend, ProcessingTimeSessionWindows.with_gap("1 min"))
    try:
        slot.epoch(0, slots.rows(("a", 3), ("a", 4)))
        assert read(slot, "_window/contents", None) == 7
        assert read(slot, "_window/contents", 1) is None
        sessions = base64.b64decode(read(slot, "_window/merging", None))
        assert struct.unpack(">qqq", sessions) == (0, 60_000, 0), "start, end and place"
    finally:
        slot.close()
