"""A place in which the job need not be able to write never answers: it holds up no restart, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from support.slots import slots
from support.slots.running import Running, stored_job

from sparkstate import clock, storage
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import storage_outages
from sparkstate.driver.job_storage import JobStorage
from sparkstate.storage.objectstore import ObjectStore
from sparkstate_tools.drivers import driving

pytestmark = pytest.mark.fault_on("a folder")
T = TypeVar("T")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    yield found
    found.close()


class Hanging:
    """Whoever wants a store below ``folder`` waits until it :meth:`answers`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._opens, self.asked = threading.Event(), threading.Event()
        kept = storage.OpenStores._kept

        def hang(stores: storage.OpenStores, url: str, opened: Callable[[], ObjectStore]) -> ObjectStore:
            if str(folder) in url:
                self.asked.set()
                assert self._opens.wait(60)
            return kept(stores, url, opened)

        monkeypatch.setattr(storage.OpenStores, "_kept", hang)

    def answers(self) -> None:
        self._opens.set()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Hanging]]:
    made: list[Hanging] = []

    def make(folder: Path) -> Hanging:
        made.append(Hanging(folder, monkeypatch))
        return made[-1]

    yield make
    for one in made:
        one.answers()


def give_up_a_savepoint(job_storage: JobStorage, target: Path, trigger_id: str = "a") -> str:
    target.mkdir(exist_ok=True)
    request = SavepointTrigger(trigger_id=trigger_id, target_directory=f"file://{target}")
    url = job_storage.begin_savepoint(request, 1, job_storage.log.state.incarnation)
    job_storage.make_savepoint_folder(url, 30.0, lambda: False)
    return url


def within(seconds: float, action: Callable[[], T]) -> T:
    """What ``action`` gives; raises ``Ending`` if it takes longer."""
    until = clock.SystemClock().monotonic() + seconds
    return storage_outages.heard(action, lambda: clock.SystemClock().monotonic() > until)


def begin_next(job_storage: JobStorage) -> int:
    return within(10, lambda: job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None))


def until_gone(url: str) -> None:
    driving.wait_for(lambda: not Path(url.removeprefix("file://")).exists(), 10, f"{url} to go")


@pytest.mark.fault(
    broken="the storage at which a savepoint was aimed never answers ({what})",
    when="when an incarnation begins, and while the next savepoint and checkpoint fail",
    expected="the job goes on at once and the status names the place; once it answers the rest is deleted",
)
@pytest.mark.parametrize("what", ["savepoint", "former sink"])
def test_a_target_that_hangs_holds_up_no_restart(
    running: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hanging: Callable[[Path], Hanging],
    what: str,
) -> None:
    monkeypatch.setattr(storage_outages, "SLOW_S", 0.2)
    job_storage = running.job_storage
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    if what == "savepoint":
        target = tmp_path / "target"
        url = give_up_a_savepoint(job_storage, target)
    else:
        target, url = tmp_path / "out", f"file://{tmp_path}/out"
        job_storage = JobStorage(running.claimed, stored_job(sum=tmp_path / "new"))
    place = hanging(target)
    number = begin_next(job_storage)
    assert number == 2
    assert place.asked.wait(10)
    clock.SystemClock().sleep(0.3)
    (told,) = job_storage.outages.away
    assert (told.url, told.doing) == (url, "delete the leftovers of a failed operation")
    assert not job_storage.outages.failing(), "no checkpoint needs it"
    failed = file_staged(job_storage, tmp_path / ("out" if what == "savepoint" else "new"))
    job_storage.discard(7)
    job_storage.leftovers.own.settle()
    assert not failed.exists(), "what lies in the job's own places is not held up either"
    place.answers()
    job_storage.leftovers.settle()
    assert job_storage.log.refresh().doomed_savepoints == ()
    assert job_storage.log.state.started_savepoints == ()
    assert job_storage.outages.away == ()


def file_staged(job_storage: JobStorage, sink: Path) -> Path:
    name = f"{job_storage.lineage.id}/{job_storage.log.state.incarnation:05d}/000000007-000-sum.json"
    file = sink / "_sparkstate_staging" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"{}")
    return file


@pytest.mark.fault(
    broken="the storage of a savepoint that has failed never answers",
    when="while its folder is deleted, and a checkpoint fails",
    expected="what that checkpoint staged is deleted all the same",
)
def test_the_deletion_of_a_savepoint_that_hangs_holds_up_no_other(
    running: Running, tmp_path: Path, hanging: Callable[[Path], Hanging]
) -> None:
    job_storage = running.job_storage
    url = give_up_a_savepoint(job_storage, tmp_path / "target")
    place = hanging(tmp_path / "target")
    job_storage.leftovers.of_savepoint(url)
    assert place.asked.wait(10)
    staged = file_staged(job_storage, running.out)
    job_storage.discard(7)
    within(10, job_storage.leftovers.own.settle)
    assert not staged.exists()


@pytest.mark.fault(
    broken="the storage at which a savepoint was aimed never answers (savepoint)",
    when="when an incarnation begins that has another one to delete, in another place",
    expected="the other one is deleted, now and when a later one fails",
)
def test_a_place_that_hangs_holds_up_no_other_place(
    running: Running, tmp_path: Path, hanging: Callable[[Path], Hanging]
) -> None:
    job_storage = running.job_storage
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    hung = give_up_a_savepoint(job_storage, tmp_path / "hung", "a")
    other = give_up_a_savepoint(job_storage, tmp_path / "other", "b")
    place = hanging(tmp_path / "hung")
    assert begin_next(job_storage) == 2
    assert place.asked.wait(10)
    until_gone(other)
    late = give_up_a_savepoint(job_storage, tmp_path / "other", "c")
    job_storage.leftovers.of_savepoint(late)
    until_gone(late)
    assert hung in job_storage.log.refresh().doomed_savepoints
    place.answers()
    job_storage.leftovers.settle()
    assert hung not in job_storage.log.refresh().doomed_savepoints


@pytest.mark.fault(
    broken="the storage of a sink never answers",
    when="when the job has ended in order, and its folders are tidied",
    expected="the end is held up for 4 s at most",
)
def test_the_end_of_a_job_waits_for_no_sink_that_hangs(
    running: Running, tmp_path: Path, hanging: Callable[[Path], Hanging]
) -> None:
    place = hanging(tmp_path / "out")
    within(15, running.job_storage.end_outputs)
    assert place.asked.is_set()


def test_the_end_of_a_driver_waits_for_no_release_that_hangs(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), threading.Event()

    def hang(record: object) -> None:
        del record
        asked.set()
        assert answers.wait(60)

    monkeypatch.setattr(running.job_storage.log, "append", hang)
    try:
        within(15, running.job_storage.release)
    finally:
        answers.set()
    assert asked.is_set()
