"""Which failures a job is restarted after, and which only a person can help."""

from __future__ import annotations

import dataclasses
import random
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.storage import checkpoints
from support.storage.stores import ManualClock

from sparkstate import errors, keys, phases
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.clock import SystemClock
from sparkstate.control.documents import DriverPhase, JobIdentity
from sparkstate.driver import job, restarts
from sparkstate.driver.context import DriverContext
from sparkstate.driver.job import JobDriver
from sparkstate.driver.outcomes import End
from sparkstate.driver.parts import Parts
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.log import FenceGuard, LineageLog
from sparkstate.runner import verdict
from sparkstate.runner.verdict import Termination
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings, RestartSettings
from sparkstate.spark import graph
from sparkstate.spark.session import Beginning
from sparkstate.storage.local import LocalStore


class Failing(JobDriver):
    """Its first incarnation fails, the second reaches the end of the input."""

    def __init__(self, error: errors.SparkstateError, folder: Path) -> None:
        clock = ManualClock()
        settings = JobSettings(
            name="job", entry=EntryPoint(module="a"), checkpoint=CheckpointSettings(storage=str(folder))
        )
        view = JobView(JobIdentity(job_uid="u"), "job", "default", "hashmap", clock)
        self.spark = SimpleNamespace(lost=None, loss=lambda wait_s: self.spark.lost)
        self.context = DriverContext(
            settings=settings,
            attempt=1,
            spark=cast("Beginning", self.spark),  # only whether it lives is asked here
            slots_here=None,
            keys=keys.of_token("token"),
            work_dir=folder,
            view=view,
            requests=Requests(),
            clock=clock,
            phases=phases.Phases("driver", clock, {}),
            rng=random.Random(1),
            began_s=clock.monotonic(),
            say=lambda said: None,
            saved=lambda repeat_s: None,
        )
        super().__init__(self.context)
        self.error, self.incarnations = error, 0
        self.lost: Path | None = None

    def _run_incarnation(self, parts: Parts) -> End:
        self.incarnations += 1
        if self.incarnations == 1:
            if self.lost is not None:
                self.lost.rmdir()
            raise self.error
        return End.INPUT_ENDED


@pytest.mark.parametrize(
    "kind",
    [
        errors.UnknownFormat,
        errors.RestoreBlocked,
        errors.StateMigrationError,
        errors.DeclarationError,
        errors.SpecInvalid,
        errors.BackendRefused,
        errors.Fenced,
    ],
)
def test_what_another_try_cannot_help_ends_the_driver_at_once(
    kind: type[errors.SparkstateError], tmp_path: Path
) -> None:
    driver = Failing(kind("why"), tmp_path)
    with pytest.raises(kind, match="why"):
        driver._run(guarded(tmp_path))
    assert driver.incarnations == 1


def test_a_driver_whose_lineage_is_another_ones_is_fenced_whatever_it_stumbled_over(tmp_path: Path) -> None:
    driver = Failing(errors.RestoreBlocked("chk-1 is missing"), tmp_path)
    parts = guarded(tmp_path)
    LineageLog(LocalStore(str(tmp_path / "lineage")), SystemClock()).claim(2, "the other")
    with pytest.raises(errors.Fenced):
        driver._run(parts)
    assert driver.incarnations == 1


def guarded(folder: Path, *, has_worked: bool = False) -> Parts:
    """Of a driver only what tells whether it may still act."""
    log = LineageLog(LocalStore(str(folder / "lineage")), SystemClock()).claim(1, "me")
    state = SimpleNamespace(restore_point=object() if has_worked else None)
    job_storage = SimpleNamespace(log=SimpleNamespace(state=state), stopped_with=None)
    return cast("Parts", SimpleNamespace(guard=FenceGuard(log, 30.0, SystemClock()), job_storage=job_storage))


@pytest.mark.parametrize("kind", [errors.DeclarationError, errors.BackendRefused])
def test_a_job_that_has_a_checkpoint_is_not_ended_by_one_slot_that_cannot_load_it(
    kind: type[errors.SparkstateError], tmp_path: Path
) -> None:
    driver = Failing(kind("cannot be loaded in a slot"), tmp_path)
    driver._run(guarded(tmp_path, has_worked=True))
    assert driver.incarnations == 2


@pytest.mark.parametrize(
    "kind", [errors.SlotLost, errors.StorageUnavailable, errors.CorruptData, errors.BackendUnavailable]
)
def test_after_any_other_failure_a_new_incarnation_goes_on(
    kind: type[errors.SparkstateError], tmp_path: Path
) -> None:
    driver = Failing(kind("why"), tmp_path)
    driver._run(guarded(tmp_path))
    assert driver.incarnations == 2


def test_a_clock_that_was_set_back_counts_towards_no_strategy(tmp_path: Path) -> None:
    """A machine sets its clock as often as it likes, and the job goes on: the status says why it stood still."""
    driver = Failing(errors.ClockStep("set back by 3,600 s"), tmp_path)
    settings = dataclasses.replace(driver.context.settings, restart=RestartSettings(strategy="none"))
    counted = restarts.Restarts(dataclasses.replace(driver.context, settings=settings))
    counted.wait_after(driver.error, guarded(tmp_path))
    status = driver.context.view.status()
    assert status.phase is DriverPhase.RECOVERING and status.restarts == 1
    assert status.recoveries[-1].cause == "ClockStep: set back by 3,600 s"
    with pytest.raises(errors.JobFailed):
        counted.wait_after(errors.SlotLost("gone"), guarded(tmp_path))


def test_a_driver_whose_spark_has_lost_its_folder_ends_so_that_another_comes(tmp_path: Path) -> None:
    """Spark never makes the folder again, and all incarnations of a driver have the same Spark."""
    driver = Failing(errors.SlotLost("gone"), tmp_path)
    blocks = tmp_path / "spark" / "blockmgr-1" / "0a"
    blocks.mkdir(parents=True)
    driver.lost = blocks
    with pytest.raises(errors.StorageUnavailable, match="0a was deleted while the job ran") as caught:
        driver._run(guarded(tmp_path))
    last = Termination(caught.value.reason, str(caught.value))
    assert isinstance(verdict.judge(verdict.DriverExit(caught.value.exit_code, last)), verdict.Crashed)
    failure = driver.context.view.status().last_failure
    assert driver.incarnations == 1 and failure is not None and failure.reason == "StorageUnavailable"


def a_lost_folder(driver: Failing, folder: Path) -> None:
    driver.lost = folder / "spark" / "blockmgr-1" / "0a"
    driver.lost.mkdir(parents=True)


@pytest.mark.parametrize("kind", [errors.SlotLost, errors.StorageUnavailable])
def test_a_jvm_that_ends_in_order_deletes_its_folders_before_its_process_is_gone(
    kind: type[errors.SparkstateError], tmp_path: Path
) -> None:
    """Nobody else has deleted them, and no exception for a cleaner would help."""
    driver = Failing(kind("[Errno 111] Connection refused"), tmp_path)
    a_lost_folder(driver, tmp_path)
    ended = errors.SparkLost("Spark's JVM (pid 12) ended with exit code 143")
    driver.spark.loss = lambda wait_s: ended if wait_s >= 2 else None
    settings = dataclasses.replace(driver.context.settings, restart=RestartSettings(strategy="none"))
    driver._restarts = restarts.Restarts(dataclasses.replace(driver.context, settings=settings))
    with pytest.raises(errors.SparkLost, match="ended with exit code 143"):
        driver._run(guarded(tmp_path))
    failure = driver.context.view.status().last_failure
    assert failure is not None and failure.reason == "SparkLost"


def test_folders_that_a_stop_deletes_are_no_failure(tmp_path: Path) -> None:
    driver = Failing(errors.SlotLost("gone"), tmp_path)
    a_lost_folder(driver, tmp_path)
    driver.context.requests.terminated.set()
    driver._run(guarded(tmp_path))
    status = driver.context.view.status()
    assert status.last_failure is None or "was deleted" not in status.last_failure.message


def test_folders_that_spark_makes_for_a_while_may_be_gone(tmp_path: Path) -> None:
    driver = Failing(errors.SlotLost("gone"), tmp_path)
    for kept in ("blockmgr-1/0a", "spark-1/userFiles-1", "spark-1/pyspark-1"):
        (tmp_path / "spark" / kept).mkdir(parents=True)
    driver.lost = tmp_path / "spark" / "spark-1" / "repl-1"
    driver.lost.mkdir()
    driver._run(guarded(tmp_path))
    assert driver.incarnations == 2


KILLED = errors.SparkLost("Spark's JVM (pid 12) was killed by SIGKILL")


@pytest.mark.parametrize("kind", [errors.JobFailed, errors.SlotLost, errors.UserCodeError])
def test_a_driver_whose_jvm_was_killed_ends_so_that_another_comes(
    kind: type[errors.SparkstateError], tmp_path: Path
) -> None:
    """All incarnations have the same JVM, so no restart within the driver could help, and none is counted."""
    driver = Failing(kind("[Errno 111] Connection refused"), tmp_path)
    driver.spark.lost = KILLED
    with pytest.raises(errors.SparkLost, match=r"\(pid 12\) was killed by SIGKILL") as caught:
        driver._run(guarded(tmp_path))
    last = Termination(caught.value.reason, str(caught.value))
    assert isinstance(verdict.judge(verdict.DriverExit(caught.value.exit_code, last)), verdict.Crashed)
    status = driver.context.view.status()
    assert driver.incarnations == 1 and status.restarts == 0
    assert status.last_failure is not None and status.last_failure.reason == "SparkLost"


def test_a_jvm_that_is_gone_makes_no_other_end_of_a_fence(tmp_path: Path) -> None:
    driver = Failing(errors.Fenced("another"), tmp_path)
    driver.spark.lost = KILLED
    with pytest.raises(errors.Fenced):
        driver._run(guarded(tmp_path))


def test_a_stop_is_no_failure_because_the_jvm_ended_with_it(tmp_path: Path) -> None:
    driver = Failing(errors.JobFailed("[Errno 111] Connection refused"), tmp_path)
    driver.spark.lost = KILLED
    driver.context.requests.cancelled.set()
    assert driver._run(guarded(tmp_path)).message.startswith("stopped")


def test_a_jvm_that_is_killed_during_the_start_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(job, "await_claim", refused)
    driver = Failing(errors.JobFailed(""), tmp_path)
    with pytest.raises(ConnectionRefusedError):
        driver.run()
    driver.spark.lost = KILLED
    with pytest.raises(errors.SparkLost):
        driver.run()


KAFKA = ("topic", "partition")


TAKEN = graph.Source(frame=cast("Any", None), parts=KAFKA, has_taken_parts=True)
NAMED = dataclasses.replace(TAKEN, has_taken_parts=False)
FILES = graph.Source(frame=cast("Any", None), of_input=1)


@pytest.mark.parametrize(
    ("stored", "sources", "kept"),
    [
        pytest.param({"source_watermarks": {"0": 5}}, [TAKEN], [()], id="one watermark stored"),
        pytest.param({"source_watermarks": {"0": 5}}, [NAMED], [KAFKA], id="the job names them"),
        pytest.param(
            {"source_watermarks": {"0": 5}, "source_parts": {"0": {"{}": 5}}}, [TAKEN], [KAFKA], id="parts"
        ),
        pytest.param({}, [TAKEN], [KAFKA], id="no row yet"),
        pytest.param(
            {"source_watermarks": {"1": 5}}, [TAKEN, FILES], [KAFKA, ()], id="rows of another input alone"
        ),
        pytest.param(
            {"source_watermarks": {"0": 5, "1": 5}},
            [TAKEN, FILES],
            [(), ()],
            id="one watermark of each input",
        ),
        pytest.param(
            {"source_watermarks": {"0": 5, "1": 5}},
            [TAKEN, dataclasses.replace(NAMED, of_input=1)],
            [(), KAFKA],
            id="the job names those of one input",
        ),
        pytest.param(
            {"source_watermarks": {"0": 5}}, [TAKEN, TAKEN], [(), ()], id="another source of the same input"
        ),
    ],
)
def test_state_with_one_watermark_gets_partitions_by_the_jobs_word_alone(
    tmp_path: Path, stored: dict[str, Any], sources: list[graph.Source], kept: list[tuple[str, ...]]
) -> None:
    declared = graph.Graph(sources=sources)
    declared.operators["op"] = cast("graph.Operator", None)
    metadata = checkpoints.metadata([checkpoints.inline_shard(0), checkpoints.inline_shard(1)], **stored)
    plan = RestorePlan("checkpoint", "checkpoint 1 was found", "file:///somewhere/chk-1")
    restored = RestoredSnapshot(plan, metadata, LocalStore(str(tmp_path)), same_lineage=True)

    def no_further(*_: object) -> int:
        raise errors.SlotLost("the rest needs slots")

    job_storage = SimpleNamespace(restore_point=lambda: restored, begin_incarnation=no_further)
    driver = Failing(errors.SlotLost(""), tmp_path)
    parts = SimpleNamespace(
        context=driver.context,
        job_storage=job_storage,
        prepared=SimpleNamespace(declared=declared),
        given_up=lambda: False,
    )
    for _ in range(2):
        with pytest.raises(errors.SlotLost):
            JobDriver._run_incarnation(driver, cast("Parts", parts))
    assert [each.parts for each in declared.sources] == kept
    assert [each.may_be_skewed for each in declared.sources] == [
        each.parts != parts for each, parts in zip(sources, kept, strict=True)
    ]
    notices = [n for n in driver.context.view.status().notices if "has one watermark" in n]
    assert len(notices) == (0 if kept == [each.parts for each in sources] else 1)


def test_a_final_failure_is_told_although_nobody_learns_from_the_storage_whether_it_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "SLOW_S", 0.2)
    answers = threading.Event()

    def hang(error: errors.SparkstateError) -> errors.SparkstateError:
        assert answers.wait(60)
        return error

    error = errors.RestoreBlocked("a file is missing")
    context = dataclasses.replace(Failing(error, tmp_path).context, clock=SystemClock())
    parts = cast("Parts", SimpleNamespace(guard=SimpleNamespace(reason_behind=hang)))
    told: Future[None] = Future()

    def wait() -> None:
        try:
            restarts.Restarts(context).wait_after(error, parts)
        except errors.RestoreBlocked as raised:
            told.set_exception(raised)

    threading.Thread(target=wait, daemon=True).start()
    try:
        assert told.exception(timeout=20) is error
    finally:
        answers.set()
