"""Jobs configured as on Flink: by the environment-like object alone, and by a flink-conf.yaml as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkstate.phases import ProcessPhase
from sparkstate_tools.drivers import totals
from sparkstate_tools.drivers.driving import Driver, manifest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
CONF = Path(__file__).parents[1] / "support/flink/confs/flink-conf-1.15.yaml"


def unconfigured(folder: Path, job: str, **params: str) -> dict[str, Any]:
    """A manifest that says nothing of backend and checkpoints."""
    document = manifest(folder, job, params=params)
    del document["spec"]["stateBackend"], document["spec"]["checkpointing"]
    return document


@pytest.mark.parametrize("backend", [pytest.param("hashmap", marks=pytest.mark.extra), "rocksdb"])
def test_a_job_configured_by_its_code_alone_is_exact_after_a_kill(tmp_path: Path, backend: str) -> None:
    rows = totals.make_input(tmp_path / "in", 6)
    places = {name: str(tmp_path / name) for name in ("checkpoints", "savepoints")}
    document = unconfigured(tmp_path, "environment.py", backend=backend, **places)
    with Driver(tmp_path, document) as driver:
        driver.kill_in("slot-1", ProcessPhase.CHECKPOINT_UPLOAD)
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert list((tmp_path / "checkpoints").glob("*/chk-*/_metadata"))
    said = driver.log()
    assert f"spec.stateBackend.type is {backend}, from code (set_state_backend)" in said
    assert "spec.checkpointing.interval is 300ms, from code (set_checkpoint_interval(300))" in said
    assert "spec.checkpointing.inlineThreshold is 0, from code (set_checkpoint_storage(" in said


@pytest.mark.parametrize("backend", ["filesystem", pytest.param("rocksdb", marks=pytest.mark.extra)])
def test_a_job_runs_on_a_flink_conf_of_1_15_as_it_is(tmp_path: Path, backend: str) -> None:
    rows = totals.make_input(tmp_path / "in", 4)
    conf = CONF.read_text().replace("state.backend: filesystem", f"state.backend: {backend}")
    conf = conf.replace("/CHECKPOINTS", str(tmp_path / "checkpoints")).replace(
        "/SAVEPOINTS", str(tmp_path / "sp")
    )
    conf = conf.replace("/tmp/rocksdb", str(tmp_path / "rocksdb"))
    (tmp_path / "driver-1").mkdir()
    (tmp_path / "driver-1" / "flink-conf.yaml").write_text(conf)
    document = unconfigured(tmp_path, "totals.py")
    del document["spec"]["slots"], document["spec"]["restart"]
    with Driver(tmp_path, document, arguments=["--set", "spec.configuration=@flink-conf.yaml"]) as driver:
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert list((tmp_path / "checkpoints").glob("*/chk-*/_metadata"))
