"""A job on a state backend of its own: accepted if the class passes the kit, otherwise ended before it has state."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from support.examples import example
from support.spark import executors

from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark

ON_PATH = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
OWN = "support.backends.own_backends"


@pytest.mark.parametrize(
    ("name", "code", "reason", "message"),
    [
        (
            "KeepsDeletedBackend",
            2,
            "BackendRefused",
            "it fails the conformance kit at commit_makes_all_kinds_of_changes (chapter state)",
        ),
        pytest.param("Backned", 2, "BackendRefused", "has no class Backned", marks=pytest.mark.extra),
        pytest.param(
            "AwayBackend",
            1,
            "BackendUnavailable",
            "ConnectionRefusedError: nobody listens at db:5432",
            marks=pytest.mark.extra,
        ),
    ],
    ids=["kit", "no-class", "away"],
)
def test_a_backend_that_fails_the_kit_ends_the_job_before_it_takes_up_state(
    tmp_path: Path, name: str, code: int, reason: str, message: str
) -> None:
    totals.make_input(tmp_path / "in", files=1)
    backend = {"type": "custom", "class": f"{OWN}:{name}"}
    document = driving.manifest(tmp_path, "totals.py", stateBackend=backend)
    with driving.Driver(tmp_path, document, environment=ON_PATH) as driver:
        assert driver.wait() == code
    end = driver.end()
    assert end["reason"] == reason
    assert f"the state backend '{OWN}:{name}' (spec.stateBackend.class)" in end["message"]
    assert message in end["message"]
    assert list((tmp_path / "checkpoints").rglob("chk-*")) == []
    assert totals.read(tmp_path / "out" / "totals") == []


def test_code_chooses_a_class_that_slots_import_by_its_name(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=3)
    job = tmp_path / "job.py"
    choice = f'    sparkstate.set_state_backend("{OWN}.MemoryBackend")\n    job(spark, params)\n'
    text = (driving.JOBS / "totals.py").read_text()
    job.write_text(f"{text}\n\ndef chosen(spark, params):\n    import sparkstate\n\n{choice}")
    document = driving.manifest(tmp_path, "totals.py", pythonFile=str(job), function="chosen")
    with driving.Driver(tmp_path, document, environment=ON_PATH) as driver:
        driver.finish()
        assert f"the state backend {OWN}.MemoryBackend passes the conformance kit" in driver.log()
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
def test_executors_import_the_class_beside_the_jobs_file_and_one_that_dies_costs_no_row(
    tmp_path: Path,
) -> None:
    rows = totals.make_input(tmp_path / "in", files=10)
    code = tmp_path / "code"
    code.mkdir()
    shutil.copy(driving.JOBS / "totals.py", code / "job.py")
    shutil.copy(example.EXAMPLES / "05-own-backend" / "sqlite_backend.py", code)
    own = {"class": "sqlite_backend:SQLiteBackend", "options": {"cache_kib": "256"}}
    document = driving.manifest(tmp_path, "totals.py", pythonFile=str(code / "job.py"), stateBackend=own)
    with executors.driver_of_many(tmp_path, document, 2) as running:
        driving.wait_for(
            lambda: any(p["phase"] == "checkpoint-complete" for p in running.phases()),
            driving.PATIENCE_S,
            "a checkpoint",
            running.process,
        )
        status = running.client().status()
        assert status.backend == "custom"
        assert len({slot.host for slot in status.slots}) == 2, "one slot per executor"
        assert "sqlite_backend:SQLiteBackend passes the conformance kit" in running.log()
        os.kill(executors.jvms(tmp_path)[0], signal.SIGKILL)
        running.finish(240)
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in running.phases()) == 2
    driving.wait_until_nothing_is_left(tmp_path)
