"""A job on a state backend of its own: accepted if the class passes the kit, otherwise ended before it has state."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        ("Backned", 2, "BackendRefused", "has no class Backned"),
        ("AwayBackend", 1, "BackendUnavailable", "ConnectionRefusedError: nobody listens at db:5432"),
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
