"""The life of a driver goes by its table: the view, which every part of a driver tells its phase, sees to that."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.drivers import driver_lives
from support.repository import tree
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.control import driver_life
from sparkstate.control.documents import DriverPhase, JobIdentity
from sparkstate.driver.storage_outages import Ending
from sparkstate.driver.view import JobView
from sparkstate.log.records import SavepointCommitted

ARROWS = {(before, row) for row in driver_life.TABLE for before in row.ends}


def view() -> JobView:
    return JobView(JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", ManualClock())


def at(phase: DriverPhase) -> JobView:
    """A view that has come there along the table."""
    paths: dict[DriverPhase, tuple[driver_life.Transition, ...]] = {driver_life.BEGIN: ()}
    while phase not in paths:
        paths.update(
            {
                row.to: (*paths[before], row)
                for before, row in ARROWS
                if before in paths and row.to not in paths
            }
        )
    made = view()
    for row in paths[phase]:
        made.happened(row)
    return made


@given(st.lists(st.sampled_from(driver_life.TABLE), max_size=12))
def test_a_view_goes_along_the_table_and_nowhere_else(told: list[driver_life.Transition]) -> None:
    made = view()
    for row in told:
        before = made.phase
        if before in row.keeps:
            made.happened(row)
            assert made.phase is before
        elif before is row.to or (before, row) in ARROWS:
            made.happened(row)
            assert made.phase is row.to
        else:
            with pytest.raises(LookupError, match=f"{before} -> {row.to} is in no table"):
                made.happened(row)
            assert made.phase is before


def test_an_end_that_is_asked_for_is_not_forgotten_when_a_storage_answers() -> None:
    made = at(DriverPhase.STOPPING)
    made.happened(driver_life.STORAGE_ANSWERS)
    assert made.phase is DriverPhase.STOPPING


@pytest.mark.parametrize("before", driver_life.ALIVE)
def test_a_failure_from_which_the_job_recovers_may_come_in_every_phase_of_a_driver_that_lives(
    before: DriverPhase,
) -> None:
    made = at(before)
    made.note_failure("SlotLost", "gone", recovering=True)
    assert made.phase is DriverPhase.RECOVERING


def test_every_phase_can_be_reached_and_only_the_end_cannot_be_left() -> None:
    assert {at(phase).phase for phase in DriverPhase} == set(DriverPhase)
    assert (
        {before for before, _ in ARROWS}
        == set(driver_life.ALIVE)
        == set(DriverPhase) - {DriverPhase.FINISHED, DriverPhase.FAILED}
    )


def test_a_driver_goes_on_off_the_table_and_says_so_in_its_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver_life, "STRICT", False)
    made = at(DriverPhase.FINISHED)
    made.happened(driver_life.FILLED)
    assert made.phase is DriverPhase.RUNNING
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "sparkstate.driver")
    assert "phase FINISHED -> RUNNING is in no table of transitions. This is a bug" in record.getMessage()


def test_only_a_test_is_strict() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARKSTATE_STRICT_LIVES"}
    asked = "from sparkstate.control import driver_life as e; from sparkstate_operator.core import transitions as o; "
    told = subprocess.run(
        [sys.executable, "-c", f"{asked}print(e.STRICT, o.STRICT)"],
        env=environment,
        capture_output=True,
        check=True,
    )
    assert told.stdout.split() == [b"False", b"False"]


# -- nothing in the table is dead --------------------------------------------------------------------------------------

BY_THE_VIEW = {driver_life.RECOVERS: "note_failure"}
"""Rows that a part of the driver does not name itself."""


def test_every_row_of_the_table_is_named_by_a_part_of_the_driver() -> None:
    told = set(named())
    assert told == set(driver_life.TABLE) - set(BY_THE_VIEW)


def named() -> Iterator[driver_life.Transition]:
    """The rows in the calls of ``happened``."""
    for path in tree.files(".py", below=tree.ENGINE / "driver"):
        for node in ast.walk(tree.parsed(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "happened":
                (row,) = node.args
                assert isinstance(row, ast.Attribute), tree.name(path)
                yield getattr(driver_life, row.attr)


LOST = driver_lives.fails(errors.SlotLost("slot 0 is gone"))
FINAL = driver_lives.fails(errors.SpecInvalid("no"))
AWAY = driver_lives.fails(errors.StorageUnavailable("it does not answer"))
CANCELLED = driver_lives.cancelled
ENDS = driver_lives.both(CANCELLED, driver_lives.fails(Ending("asked to end")))
LIVES: dict[str, dict[str, list[driver_lives.Event]]] = {
    "to the end of its input": {},
    "the storage is away when it claims": {"claim": [AWAY]},
    "the storage is away, and it is asked to end": {"claim": [AWAY, driver_lives.both(CANCELLED, AWAY)]},
    "it cannot claim": {"claim": [FINAL]},
    "the storage is away, and then it cannot claim": {"claim": [AWAY, FINAL]},
    "it is asked to end before it restores": {"restore": [ENDS]},
    "a slot is lost before it restores": {"restore": [LOST]},
    "the storage is away, and then a slot is lost": {"claim": [AWAY], "restore": [LOST]},
    "it cannot restore": {"restore": [FINAL]},
    "it cannot restore after a loss": {"restore": [LOST, FINAL]},
    "it is asked to end after a loss": {"restore": [driver_lives.both(CANCELLED, LOST)]},
    "a slot is lost while they fill": {"fill": [LOST]},
    "its slots cannot be filled": {"fill": [FINAL]},
    "it is asked to end while its slots fill": {"fill": [ENDS]},
    "the log is away while its slots fill": {"fill": [driver_lives.away]},
    "the log is away when its slots are full": {"fill": [driver_lives.away_beyond]},
    "a slot is lost while it runs": {"run": [LOST]},
    "it fails for good while it runs": {"run": [FINAL]},
    "it is asked to end": {"run": [CANCELLED]},
    "the log is away while it runs": {"run": [driver_lives.away]},
    "it is asked to end while the log is away": {"run": [driver_lives.cancelled_while_away]},
    "it is not stopped, for its savepoint fails": {"run": [driver_lives.stopped_in_vain(drain=False)]},
    "it is not drained, for its savepoint fails": {"run": [driver_lives.stopped_in_vain(drain=True)]},
    "the log is away in its last epoch": {"end": [driver_lives.away]},
    "a slot is lost in its last epoch": {"end": [LOST]},
    "it fails for good in its last epoch": {"end": [FINAL]},
}
"""What happens, by where it happens."""


def test_every_arrow_of_the_table_is_gone_by_a_driver_and_no_driver_goes_another_way(tmp_path: Path) -> None:
    gone: set[driver_lives.Arrow] = set()
    for number, (life, events) in enumerate(LIVES.items()):
        made = driver_lives.Life({where: list(each) for where, each in events.items()})
        with pytest.MonkeyPatch.context() as patch:
            made.live(tmp_path / str(number), patch)
        assert driver_lives.told(made.arrows - ARROWS) == [], life
        assert {row for _, row in made.arrows} & {driver_life.FINISHES, driver_life.FAILS}, f"{life}: no end"
        gone |= made.arrows
    assert driver_lives.told(ARROWS - gone) == [], "no driver goes there"


@pytest.mark.parametrize("where", ["run", "restore"])
def test_a_driver_that_its_log_calls_stopped_has_no_further_incarnation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A slot was lost after the lineage was closed, and whoever asked for the stop has been told of it."""
    saved = SavepointCommitted(
        trigger_id="end",
        url="s3://b/sp",
        checksum="c",
        checkpoint_id=3,
        epoch=7,
        incarnation=1,
        timestamp_ms=0,
    )
    life = driver_lives.Life({where: [LOST]}, stopped_with=saved)
    outcome = life.live(tmp_path, monkeypatch)
    assert outcome is not None and outcome.reason == "Suspended"
    assert outcome.savepoint == {"location": "s3://b/sp", "epoch": 7, "trigger_id": "end"}
    assert driver_life.RECOVERS not in {row for _, row in life.arrows}


@pytest.mark.parametrize("bounded", [False, True], ids=["input without end", "bounded input"])
def test_a_query_that_the_jobs_code_stops_is_no_end_of_its_input(
    bounded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was: timers fired as at the end of time, and the job was finished."""
    life = driver_lives.Life({"run": [driver_lives.stopped_elsewhere, CANCELLED]}, bounded)
    outcome = life.live(tmp_path, monkeypatch)
    assert outcome is not None and outcome.reason == "Cancelled"
    assert driver_life.RECOVERS in {row for _, row in life.arrows}
    assert life.arrows <= ARROWS


RECOVERY = "tests/integration/test_recovery.py::"
SHOWN = {
    "an incarnation begins": RECOVERY + "test_an_executor_jvm_that_is_killed_takes_its_slots_along",
    "the slots hold their state": RECOVERY + "test_an_executor_jvm_that_is_killed_takes_its_slots_along",
    "a storage does not answer, and the job waits for it": (
        "tests/integration/test_fencing.py::test_while_the_storage_is_away_the_job_pauses_and_then_goes_on"
    ),
    "the storage answers again": (
        "tests/integration/test_fencing.py::test_while_the_storage_is_away_the_job_pauses_and_then_goes_on"
    ),
    "the job is asked to end, or to stop with a savepoint, or its input ends": (
        "tests/integration/test_savepoints.py::test_a_savepoint_is_idempotent_restores_elsewhere_and_closes_its_job"
    ),
    "something failed, and the job goes back to its last checkpoint": (
        RECOVERY + "test_an_executor_jvm_that_is_killed_takes_its_slots_along"
    ),
    "the input has been processed, or the job was asked to end": (
        RECOVERY + "test_a_job_runs_to_the_end_of_its_input_and_leaves_nothing_behind"
    ),
    "something failed that another try would not change, or no other try is allowed": (
        "tests/integration/test_broken_storage.py"
        "::test_a_driver_that_finds_a_damaged_state_file_stops_and_loses_nothing"
    ),
}
"""A test of a whole driver in which it happens. The drivers of tests are strict: they end off the table."""

NOT_SHOWN = {
    "the savepoint to stop with has failed": "the storage has to fail between the last epoch and its savepoint",
}
"""Rows that no whole driver goes through in a test, and why."""


def test_every_row_of_the_table_happens_in_a_test_of_a_whole_driver() -> None:
    assert {*SHOWN, *NOT_SHOWN} == {row.when for row in driver_life.TABLE}
    for test in SHOWN.values():
        path, name = test.split("::")
        assert f"def {name}(" in (tree.ROOT / path).read_text(), test
