"""What `sparkstate run` says of a driver that goes on: outages of storages, and restarts within the driver."""

from __future__ import annotations

import io
from pathlib import Path

from support.storage.stores import ManualClock

from sparkstate.control import documents
from sparkstate.runner import news, progress, watching, workdir

FULL = documents.StorageAway(
    url="file:///full", doing="store checkpoint 7", since_ms=0, message="No space left"
)
AWAY = documents.StorageAway(url="s3://bucket", doing="publish output", since_ms=0, message="timed out")
RECOVERING, RUNNING = documents.DriverPhase.RECOVERING, documents.DriverPhase.RUNNING
BEGUN = "storage away: file:///full: No space left; the job goes on trying"


def status(
    *away: documents.StorageAway,
    phase: documents.DriverPhase = RUNNING,
    restarts: int = 0,
    failure: tuple[str, str] | None = None,
) -> documents.JobStatus:
    last = None if failure is None else documents.Failure(at_ms=0, reason=failure[0], message=failure[1])
    return documents.JobStatus(
        job_uid="u", name="job", phase=phase, storage_away=away, restarts=restarts, last_failure=last
    )


def said(*looks: documents.JobStatus) -> list[tuple[str, ...]]:
    told, all_of_them = news.ToldNews(), []
    for look in looks:
        sentences, told = news.since(told, look)
        all_of_them.append(sentences)
    return all_of_them


def test_an_outage_is_said_once_when_it_begins_and_once_when_it_ends() -> None:
    assert said(status(), status(FULL), status(FULL), status(FULL, AWAY), status(AWAY), status()) == [
        (),
        (BEGUN,),
        (),
        ("storage away: s3://bucket: timed out; the job goes on trying",),
        ("storage back: file:///full",),
        ("storage back: s3://bucket",),
    ]


def test_an_outage_is_over_only_when_the_job_runs() -> None:
    looks = (status(FULL), status(phase=RECOVERING), status(FULL, phase=RECOVERING), status())
    assert said(*looks) == [(BEGUN,), (), (), ("storage back: file:///full",)]
    assert said(status(FULL), status(phase=documents.DriverPhase.STOPPING))[1] == ()


def test_each_restart_within_the_driver_is_said_with_the_first_line_of_its_cause() -> None:
    failure = ("SlotLost", "slot 0 is gone\nTraceback")
    first = status(phase=RECOVERING, restarts=1, failure=failure)
    second = status(restarts=2, failure=failure)
    assert said(first, first, second) == [
        ("restart 1 within the driver: SlotLost: slot 0 is gone",),
        (),
        ("restart 2 within the driver: SlotLost: slot 0 is gone",),
    ]


def test_the_tries_to_restore_from_a_storage_that_is_away_are_said_once() -> None:
    away = ("StorageUnavailable", "gone")
    looks = [status(phase=RECOVERING, restarts=number, failure=away) for number in (1, 2, 3)]
    assert said(*looks) == [("restart 1 within the driver: StorageUnavailable: gone",), (), ()]


def test_a_watch_says_it_without_progress_too(tmp_path: Path) -> None:
    class Client:
        looks = iter([status(), status(FULL), status(FULL), status()])

        def status(self) -> documents.JobStatus:
            return next(self.looks)

    class Lives:
        def poll(self) -> None:
            return None

    output, clock = io.StringIO(), ManualClock()
    folder = workdir.WorkDir(tmp_path)
    folder.status_file.write_text('{"pid": 5, "address": "http://127.0.0.1:1"}')
    watch = watching.Watch(
        job=watching.Job(name="job", first_attempt=1, savepoint_on_stop=False),
        folder=folder,
        driver=Lives(),  # type: ignore[arg-type]
        connect=lambda address: Client(),  # type: ignore[arg-type, return-value]
        stop=watching.StopRequest(),
        clock=clock,
        reporter=progress.Reporter(output, clock, show_progress=False),
    )
    for _ in range(4):
        assert watch.step(None) is None
        clock.sleep(watching.STATUS_PERIOD_S)
    assert output.getvalue().splitlines() == [BEGUN, "storage back: file:///full"]
