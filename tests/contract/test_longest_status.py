"""However long the errors of a job are, the operator reads its driver's status."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.storage.stores import ManualClock

from sparkstate import cut_text, errors
from sparkstate.control import driver_life, status_limit
from sparkstate.control.documents import (
    JobIdentity,
    JobStatus,
    OperatorStateSize,
    SavepointPhase,
    SlotStatus,
    UserMetric,
)
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import RECOVERIES, JobView
from sparkstate_operator import errors as operator_errors
from sparkstate_operator import observe, observed
from sparkstate_operator.edges import driver


def running() -> JobView:
    made = JobView(JobIdentity(job_uid="uid-1", attempt=1), "orders", "shop", "hashmap", ManualClock())
    made.happened(driver_life.RESTORES)
    made.happened(driver_life.FILLED)
    return made


def size(status: JobStatus) -> int:
    return len(status.model_dump_json().encode())


@pytest.mark.parametrize("character", ["x", '"', "\\", "\x00", "ü", "文", "😀", "\ud800"])
def test_a_hundred_recoveries_from_the_longest_errors_fit_the_status(character: str) -> None:
    view = running()
    for number in range(RECOVERIES + 1):
        view.note_failure("UserCodeError", f"row {number}: " + character * 20_000, recovering=True)
        view.happened(driver_life.RESTORES)
        view.note_incarnation(number + 2, f"s3://bucket/jobs/uid-1/chk-{number}", number)
        view.happened(driver_life.FILLED)
        view.note_epoch(number, 1, 0, 1.0)
    view.note_failure("UserCodeError", character * (2 << 20) + " because of this", recovering=True)
    view.outages.failed("s3://bucket", "write", errors.StorageUnavailable(character * (2 << 20)))
    status = view.status()
    assert len(status.recoveries) == RECOVERIES + 1
    assert status.recoveries[0].cause.startswith("UserCodeError: row 1: ")
    assert status.last_failure is not None
    assert status.last_failure.message.endswith(" because of this")
    assert size(status) < driver.LONGEST


def test_the_failure_of_a_savepoint_is_cut() -> None:
    requests = Requests()
    requests.add(SavepointTrigger(trigger_id="t"))
    requests.update("t", SavepointPhase.FAILED, failure="ü" * (2 << 20))
    found = requests.find("t")
    assert found is not None
    assert found.status is SavepointPhase.FAILED
    assert len(found.failure or "") == cut_text.FAILURE


def crowded(**fields: Any) -> JobStatus:
    """Eighty slots with twenty lists each, and 500 metrics, all with long names."""
    lists = tuple(
        OperatorStateSize(operator="o" * 250, state=f"{number}" * 250, kind="split", elements=1, size_bytes=1)
        for number in range(20)
    )
    slots = tuple(
        SlotStatus(index=index, shards=(2 * index, 2 * index + 1), operator_states=lists)
        for index in range(80)
    )
    metrics = tuple(
        UserMetric(operator="o", name=f"{number}" * 1000, kind="counter", count=1.0) for number in range(500)
    )
    return running().status().model_copy(update={"slots": slots, "user_metrics": metrics, **fields})


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a driver with more states, metrics and notices than its status has room for",
    when="the operator asks for it",
    expected="what a reader misses least is left out, a notice says so, and the operator hears of the rest",
)
@pytest.mark.parametrize(
    ("fields", "left_out"),
    [
        ({"slots": ()}, "the metrics of functions"),
        ({}, "the metrics of functions, the sizes of operator state"),
        (
            {"notices": ("n" * 100_000 + "; mend it",) * 20},
            "the metrics of functions, the sizes of operator state, parts of its notices",
        ),
    ],
)
def test_a_status_that_is_too_long_leaves_details_out_and_says_so(
    fields: dict[str, Any], left_out: str
) -> None:
    status = crowded(**fields)
    assert size(status) > driver.LONGEST
    found = status_limit.shortened(status)
    assert size(found) <= status_limit.LONGEST < driver.LONGEST
    assert found.notices[0].startswith(
        f"this status leaves out {left_out}: it would have {size(status)} bytes"
    )
    assert [slot.shards for slot in found.slots] == [slot.shards for slot in status.slots]
    assert all(notice.endswith("; mend it") for notice in found.notices[1:]), "the remedies stay"


def test_a_status_that_fits_stays_as_it_is() -> None:
    status = running().status()
    assert status_limit.shortened(status) is status


def test_a_short_text_stays_as_it_is_and_a_long_one_keeps_head_and_tail() -> None:
    assert cut_text.cut("a b", 10) == "a b"
    assert cut_text.cut("x" * 10, 10) == "x" * 10
    assert cut_text.cut("abcdefghijklmnop", 12) == "abcdef … nop"


class TooLong:
    """A driver whose status the operator refuses for its length."""

    async def status(self, *_: Any) -> Any:
        raise operator_errors.AnswerTooLarge(
            "GET http://10.0.0.1/v1/status: the answer is longer than 5 bytes"
        )


def test_the_operator_says_that_a_status_is_too_long() -> None:
    observer = observe.Observer(None, TooLong(), b"key", None)  # type: ignore[arg-type]
    found = asyncio.run(observer._ask(observed.DriverEndpoint("10.0.0.1", "uid-1", 1), None))
    assert found.report is None
    assert "its status is longer than 1048576 bytes" in found.unheard
