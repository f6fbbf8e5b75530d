"""The documents of the page, as a driver makes them, are those that ``docs/openapi.json`` describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import jsonschema
import pytest
from support.storage.stores import ManualClock

from sparkstate import keys
from sparkstate.control import server
from sparkstate.control.documents import CheckpointInfo, CheckpointStatus, JobIdentity, LongWorkKind
from sparkstate.driver.control import DriverControl
from sparkstate.driver.job_graph import shape_of
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.functions import KeyedProcessFunction
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.spark import graph
from sparkstate.spark.epochs import OperatorResult

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
EVIL = "<script>alert(1)</script>\x00\u202e"


class Slots:
    """Two slots, of which the second has been lost."""

    count = 2

    def read_state(self, *_: object) -> Any:
        raise NotImplementedError

    def read_operator_state(self, *_: object) -> Any:
        raise NotImplementedError

    def read_log(self, slot: int) -> tuple[str, ...]:
        return (f"a line of slot {slot}", EVIL)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def view(clock: ManualClock) -> JobView:
    """Of a job that has run some epochs and a checkpoint."""
    made = JobView(JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", clock)
    declared = graph.Graph(sources=[graph.Source(frame=cast("Any", None))])
    declared.add(
        graph.Operator(
            uid="op",
            function=KeyedProcessFunction.__new__(
                type("F", (KeyedProcessFunction,), {"process_element": None})
            ),
            keys=(EVIL,),
            upstream=None,
            event_time=None,
            output_schema="k string",
        )
    )
    declared.add_sink("op", None, FileSink("/out"))
    made.note_shape(shape_of(declared, lambda source: ("kafka",)))
    reply = protocol.SlotStatus(
        slot=0,
        pid=1,
        shards=(0,),
        state_bytes=900,
        state_rows=9,
        rss_bytes=1,
        memory={"budget": 5000, "cache": 70, "tables": 30},
        metrics={},
        operators=(protocol.OperatorSize(operator="op", state_rows=9, state_bytes=900, timers=2),),
    )
    for epoch in range(3):
        result = OperatorResult(
            uid="op", rows_in=10, rows_out={None: 8}, late_rows=1, dropped_rows=0, timers_fired=0, busy_ms=50
        )
        made.note_slots([SlotAddress(0, "h", 1, "/s", 0)], [reply])
        made.note_epoch(epoch, 10, clock.now_ms() - 700, 0.1, late_rows=1, operators=[result])
        clock.sleep(5)
    made.note_checkpoint(
        CheckpointInfo(
            id=1, status=CheckpointStatus.COMPLETED, epoch=2, trigger_ms=0, duration_ms=40, uploaded_bytes=600
        )
    )
    made.long_work.note(LongWorkKind.RESTORE, 5, 10, rescale=(2, 3))
    clock.sleep(5)
    return made


@pytest.fixture
def caller(view: JobView) -> Iterator[httpx.Client]:
    lines = ("a line of the driver", EVIL)
    control = DriverControl(
        view, Requests(), lambda _: None, lambda: cast("Any", Slots()), lambda: 1, own_lines=lambda: lines
    )
    own = keys.of_token("a-token-of-the-contract")
    with server.ControlServer(control, own) as running:
        headers = {"authorization": f"Bearer {own.read}"}  # the page's link has no stronger key
        with httpx.Client(base_url=running.address, headers=headers, trust_env=False) as client:
            yield client


def described(path: str, answer: httpx.Response) -> Any:
    """The answer's document, which has the form that is written for that path, and no field that is not."""
    assert answer.status_code == 200, answer.text
    schema = SCHEMA["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator({**schema, "components": SCHEMA["components"]})
    document = answer.json()
    validator.validate(document)
    name = schema["$ref"].rpartition("/")[2]
    assert set(document) == set(SCHEMA["components"]["schemas"][name]["properties"])
    return document


def test_the_graph_is_as_written_and_agrees_with_the_status(caller: httpx.Client) -> None:
    told = described("/v1/graph", caller.get("/v1/graph"))
    status = described("/v1/status", caller.get("/v1/status"))
    assert [node["kind"] for node in told["nodes"]] == ["source", "operator", "sink"]
    figures = told["nodes"][1]["figures"]
    assert figures["rows_in_total"] == status["rows_total"] == 30
    assert figures["rows_in_per_s"] == status["rows_per_s"]
    assert figures["late_rows_total"] == status["late_rows_total"] == 3
    assert (figures["state_bytes"], figures["timers"]) == (status["state_bytes"], 2)
    assert figures["busy_share"] == pytest.approx(0.5)
    known = {node["id"] for node in told["nodes"]}
    assert all({edge["source"], edge["target"]} <= known and edge["input"] == 0 for edge in told["edges"])
    assert status["progress"][0] | {"since_ms": 0} == {
        "kind": "restore", "name": "", "since_ms": 0, "done_bytes": 5, "total_bytes": 10, "left_ms": 5000,
        "slots_before": 2, "slots_after": 3,
    }  # fmt: skip


def test_the_series_have_what_was_measured_and_gaps_where_nothing_was(caller: httpx.Client) -> None:
    told = described("/v1/series", caller.get("/v1/series"))
    lists = {name: values for name, values in told.items() if isinstance(values, list)}
    assert told["last"] == 4
    assert lists == {
        "rows_per_s": [2.0, 2.0, 2.0, None],
        "epoch_ms": [100.0, 100.0, 100.0, None],
        "lag_ms": [None, 5_700.0, 5_700.0, None],  # the first epoch brings the first watermark
        "state_bytes": [900.0, 900.0, 900.0, None],
        "memory_bytes": [100.0, 100.0, 100.0, None],
        "budget_bytes": [5_000.0, 5_000.0, 5_000.0, None],
        "checkpoint_ms": [None, None, None, 40.0],
        "checkpoint_bytes": [None, None, None, 600.0],
    }
    later = described("/v1/series", caller.get("/v1/series?after=3"))
    assert later["rows_per_s"] == [None]


def test_the_logs_are_as_written(caller: httpx.Client) -> None:
    assert described("/v1/logs/{source}", caller.get("/v1/logs/driver"))["lines"] == [
        "a line of the driver",
        EVIL,
    ]
    assert described("/v1/logs/{source}", caller.get("/v1/logs/slot-1"))["lines"][0] == "a line of slot 1"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/logs/slot-2", 404),
        ("/v1/logs/slot-99999", 404),
        ("/v1/logs/slot--1", 422),
        ("/v1/logs/slot-123456", 422),
        ("/v1/logs/..%2f..%2fetc%2fpasswd", 404),
        ("/v1/logs/executor", 422),
        ("/v1/series?after=-1", 422),
        ("/v1/series?after=x", 422),
        ("/v1/series?after=99999999999999999999", 422),
    ],
)
def test_what_is_not_there_is_refused(caller: httpx.Client, path: str, status: int) -> None:
    assert caller.get(path).status_code == status


@pytest.mark.parametrize("path", ["/v1/graph", "/v1/series", "/v1/logs/driver"])
def test_nobody_reads_them_without_a_key_and_nobody_changes_anything_there(
    caller: httpx.Client, path: str
) -> None:
    without = caller.get(path, headers={"authorization": ""})
    assert (without.status_code, without.content) == (401, b"")
    assert caller.post(path).status_code == 403
