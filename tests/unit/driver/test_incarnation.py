"""The end of an incarnation: which error it tells, and what it names as the cause."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sparkstate import errors
from sparkstate.clock import SystemClock
from sparkstate.control import driver_life
from sparkstate.control.documents import JobIdentity
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.incarnation import Incarnation
from sparkstate.driver.outcomes import End
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.driver.watching import Loss


@pytest.mark.parametrize("lost", ["nothing", "a slot", "a slot, as the epoch says itself"])
def test_no_error_of_the_last_epoch_is_its_own_cause(lost: str) -> None:
    over = threading.Event()
    loss, failure = Loss(over), errors.StorageRefused("of the last commit")
    if lost != "nothing":
        loss.error = errors.SlotLost("slot 0 is gone") if lost == "a slot" else failure
    told = loss.error or failure

    def fail() -> None:
        raise failure

    def gone(_: float) -> None:
        raise errors.SlotLost("slot 0 is gone")

    view = JobView(JobIdentity(job_uid="u"), "job", "default", "hashmap", SystemClock())
    for event in (driver_life.RESTORES, driver_life.FILLED):
        view.happened(event)
    parts: Any = SimpleNamespace(context=SimpleNamespace(requests=Requests(), view=view))
    pool: Any = SimpleNamespace(group=SimpleNamespace(interrupt=lambda: None, status=gone))
    query: Any = SimpleNamespace(failure=None)
    loop: Any = SimpleNamespace(end_of_input=fail)
    incarnation = Incarnation(parts, pool, query, loop, loop, EpochPipeline(), loss, over)
    with pytest.raises(type(told)) as raised:
        incarnation._drain()
    assert raised.value is told
    assert told.__cause__ is (failure if lost == "a slot" else None)


def stopped(query: Any, loop: Any) -> Incarnation:
    """An incarnation whose query has ended without a failure."""
    over = threading.Event()
    view = JobView(JobIdentity(job_uid="u"), "job", "default", "hashmap", SystemClock())
    for event in (driver_life.RESTORES, driver_life.FILLED):
        view.happened(event)
    parts: Any = SimpleNamespace(context=SimpleNamespace(requests=Requests(), view=view))
    pool: Any = SimpleNamespace(group=SimpleNamespace(interrupt=lambda: None, status=lambda _: []))
    made = Incarnation(parts, pool, query, loop, loop, EpochPipeline(), Loss(over), over)
    made._watch_slots = lambda: None  # type: ignore[method-assign]
    return made


def ended(*, has_read_all: bool) -> Any:
    """A query without a failure."""
    return SimpleNamespace(failure=None, wait=lambda _: True, has_read_all=lambda: has_read_all)


@pytest.mark.parametrize("has_read_all", [False, True])
def test_a_query_that_somebody_else_has_stopped_is_no_end_of_the_input(has_read_all: bool) -> None:
    """Timers fired as at the end of time, and a planned epoch that nobody had run counted as committed."""
    drained: list[str] = []
    loop: Any = SimpleNamespace(stopped_by_savepoint=False, end_of_input=lambda: drained.append("drained"))
    incarnation = stopped(ended(has_read_all=has_read_all), loop)
    if has_read_all:
        assert incarnation.run() is End.INPUT_ENDED
    else:
        with pytest.raises(errors.JobFailed, match="stopped by something other than the driver"):
            incarnation.run()
    assert drained == (["drained"] if has_read_all else [])


def test_a_jvm_that_ends_before_it_tells_how_the_query_ended_is_no_end_of_the_input() -> None:
    loop: Any = SimpleNamespace(stopped_by_savepoint=False)
    query = ended(has_read_all=False)

    def has_read_all() -> bool:
        raise ConnectionRefusedError("nobody listens")

    query.has_read_all = has_read_all
    with pytest.raises(errors.JobFailed, match="nobody listens"):
        stopped(query, loop).run()


def test_a_failure_beside_the_query_is_told_before_the_stop_that_it_led_to() -> None:
    """A sink that fails beside the next epoch may be why the job's code stops the query."""
    loop: Any = SimpleNamespace(stopped_by_savepoint=False)
    incarnation = stopped(ended(has_read_all=False), loop)
    failed = errors.UserCodeError("the sink raised")

    def fail() -> None:
        raise failed

    incarnation._pipeline.start(fail)
    with pytest.raises(errors.UserCodeError):
        incarnation._pipeline.settle()
    with pytest.raises(errors.UserCodeError) as raised:
        incarnation.run()
    assert raised.value is failed


@pytest.mark.parametrize("saved", [True, False])
def test_a_cancel_that_meets_a_stop_with_savepoint_is_told_with_it(saved: bool) -> None:
    loop: Any = SimpleNamespace(stopped_by_savepoint=saved)
    query: Any = SimpleNamespace(failure=None, stop=lambda *_: None)
    found = stopped(query, loop)._cancel()
    assert found is (End.SAVEPOINT if saved else End.CANCELLED)
