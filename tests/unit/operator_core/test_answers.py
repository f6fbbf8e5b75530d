"""What drivers, commands, annotations and labels say, whatever it is: it is read, or counts as unsaid."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.scene.decisions import NOW, SPEC, ended, job, look, pod, running_status, trace

from sparkstate_operator import actions, answers, labels, observe, observed
from sparkstate_operator.model import StatefulSparkJobStatus

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def mixed(shape: Any) -> st.SearchStrategy[Any]:
    """Values of the shape with something else here and there."""
    if isinstance(shape, dict):
        return st.fixed_dictionaries({}, optional={name: mixed(one) for name, one in shape.items()}) | ANY
    if isinstance(shape, list):
        return st.lists(mixed(shape[0]), max_size=2) | ANY
    return {int: st.integers(), str: st.text(max_size=5), bool: st.booleans(), list: st.lists(st.integers())}[
        shape
    ] | ANY


@dataclasses.dataclass
class Odd:
    """A driver that answers whatever it likes."""

    document: Any
    point: Any = None

    async def status(self, *_: Any) -> Any:
        return self.document

    async def savepoint(self, *_: Any) -> Any:
        return self.point


def asked(document: Any, point: Any = None) -> observed.Report | None:
    observer = observe.Observer(None, Odd(document, point), b"key", None)  # type: ignore[arg-type]
    return asyncio.run(observer._ask(observed.DriverEndpoint("10.0.0.1", "uid-1", 1), "t-1")).report


@given(mixed(answers.STATUS), mixed(answers.SAVEPOINT))
@example({"storage_away": [{"url": None, "doing": None, "failures": None}]}, {})
@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the driver answers with fields of any type",
    when="it is asked for its status",
    expected="a decision all the same; an answer that cannot be read counts as none",
)
def test_whatever_a_driver_answers_there_is_a_decision(document: Any, point: Any) -> None:
    report = asked(document, point)
    if report is not None:
        assert report.news is not None
        assert report.waits_for is None or report.waits_for == document["waits_for_attempt"]
    seen = observed.ObservedState(job(running_status()), NOW, drivers=(pod(),), report=report)
    StatefulSparkJobStatus.model_validate_json(json.dumps(dict(look(seen).status)))


def test_an_answer_of_the_right_shape_is_read() -> None:
    report = asked({"phase": "RUNNING", "restarts": 2, "last_checkpoint": {"id": 3, "path": "s3://b/3"}})
    assert report is not None
    assert report.phase == "RUNNING"


@pytest.mark.parametrize("message", ["[" * 4090, '{"a":' * 800, "5", '"x"', "null"])
def test_a_last_word_of_any_form_is_no_more_than_no_word(message: str) -> None:
    assert observed.Termination(1, "Error", message).word == {}


@given(mixed(answers.SAVEPOINT))
def test_a_savepoint_in_a_last_word_is_taken_as_it_should_be_or_not_at_all(savepoint: Any) -> None:
    gone = pod(phase="Failed", ready=False, ended=ended(1, "SlotLost", savepoint=savepoint))
    look(observed.ObservedState(job(running_status()), NOW, drivers=(gone,)))


@pytest.mark.parametrize("text", ["{", "[]", "5", "[" * 5000, '{"since": "x", "uri": 5, "empty": "yes"}'])
def test_an_edited_annotation_says_nothing_and_the_manifest_says_what_it_said(text: str) -> None:
    told = {"since": 4, "empty": True}
    body = {
        **trace(4).body,
        "data": {"job.yaml": json.dumps({"metadata": {"annotations": {labels.START: json.dumps(told)}}})},
    }
    body["metadata"] = {**body["metadata"], "annotations": {labels.START: text}}
    child = dataclasses.replace(trace(4), body=body)
    status = look(observed.ObservedState(job(), NOW, drivers=(pod(4),), config_maps=(child,))).status
    assert status.get("start") == (None if "since" in text else told)


def test_an_instruction_takes_no_field_of_another_type() -> None:
    assert actions.Start.of({"since": "x", "uri": 5, "empty": True, "other": 1}) == actions.Start(empty=True)


@pytest.mark.parametrize("number", ["1000000", "99999999999", "-1", "\u0664", "x"])
def test_a_number_that_no_operator_gives_is_no_attempt(number: str) -> None:
    meta = {"name": "m", "uid": "u", "resourceVersion": "1", "labels": {labels.ATTEMPT: number}}
    assert observed.child_of({"metadata": meta}, "ConfigMap").attempt is None


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01", "2026-01-01T00:00:00"])
def test_a_periodic_savepoint_whose_time_was_edited_does_not_end_the_decision(text: str) -> None:
    snapshot = observed.Snapshot(
        name="orders-1", uid="s-1", resource_version="1", generation=1, created=NOW - timedelta(days=1),
        spec={}, status={"phase": "Completed"}, annotations={labels.SCHEDULED: text}, finalizers=(),
        labels={labels.JOB_UID: "uid-1", labels.SNAPSHOT_TYPE: labels.PERIODIC},
    )  # fmt: skip
    one = job(running_status(), savepoints={"interval": "1h"}, checkpointing=SPEC["checkpointing"])
    look(observed.ObservedState(one, NOW, drivers=(pod(),), snapshots=(snapshot,)))


@pytest.mark.parametrize("name", ["lineage", "backend"])
def test_a_text_that_no_status_has_room_for_is_no_answer(name: str) -> None:
    """The API server refuses a status of more than about 1.5 MB, and nobody looked after the job any more."""
    assert asked({"phase": "RUNNING", name: "x" * 2**14}) is not None
    assert asked({"phase": "RUNNING", name: "x" * (2**14 + 1)}) is None


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a driver whose status is too long, or not valid",
    when="the operator asks for it",
    expected="the job counts as running, and Degraded and an Event say that nobody hears of its checkpoints",
)
def test_a_driver_that_cannot_be_heard_is_told_once() -> None:
    seen = observed.ObservedState(
        job(running_status()), NOW, drivers=(pod(),), unheard="its status is too long"
    )
    first = look(seen)
    (degraded,) = (one for one in first.status["conditions"] if one["type"] == "Degraded")
    told = "the driver of attempt 1 runs, and cannot be heard: its status is too long"
    assert (degraded["reason"], degraded["message"]) == ("DriverUnheard", told)
    assert [(note.reason, note.message, note.warning) for note in first.notes] == [
        ("DriverUnheard", told, True)
    ]
    assert first.status["phase"] == "Running"
    again = look(dataclasses.replace(seen, job=job(first.status)))
    assert (again.notes, again.status) == ((), first.status)
    heard = look(dataclasses.replace(seen, job=job(first.status), unheard=""))
    assert "DriverUnheard" not in str(heard.status)
