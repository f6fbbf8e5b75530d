"""What ``sparkstate doctor`` looks at, check by check."""

import dataclasses
from pathlib import Path

import pytest

from sparkstate import settings
from sparkstate.doctor import examination, machine, software
from sparkstate.operators import compiled


def job(**fields) -> settings.JobSettings:
    return settings.JobSettings(name="j", entry=settings.EntryPoint(), **fields)


def test_an_old_python_is_named_with_the_command_that_installs_another() -> None:
    check = software.check_python((3, 9, 1))
    assert not check.ok
    assert check.detail == "3.9.1"
    assert "uv python install 3.11" in check.remedy
    assert software.check_python((3, 14, 0)).ok


def test_a_missing_package_is_named_with_its_command() -> None:
    check = software.check_distribution("no-such-package", "pip install no-such-package", required=False)
    assert (check.ok, check.required) == (False, False)
    assert check.remedy == "`pip install no-such-package`"


def test_a_package_of_another_version_is_not_accepted() -> None:
    check = software.check_distribution("click", "pip install click", wanted="0.")
    assert not check.ok
    assert "0.x is needed" in check.detail


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    assert machine.check_writable("temporary files", tmp_path).ok
    assert not list(tmp_path.iterdir())
    check = machine.check_writable("temporary files", tmp_path / "missing")
    assert not check.ok
    assert str(tmp_path / "missing") in check.detail


def test_the_disk_of_a_folder_that_is_not_there_yet_is_its_parents(tmp_path: Path) -> None:
    assert str(tmp_path) in machine.check_disk(tmp_path / "a" / "b").detail


@pytest.mark.parametrize(
    ("available", "needed", "ok"),
    [(4 * machine.GIB, 3 * machine.GIB, True), (2 * machine.GIB, 3 * machine.GIB, False), (None, 1, True)],
)
def test_memory_is_compared_with_the_jobs_sum(available: int | None, needed: int, ok: bool) -> None:
    assert machine.check_memory(available, needed).ok is ok


def test_available_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemAvailable:   42 kB\n")
    assert machine.available_memory(meminfo) == 42 * 1024
    assert machine.available_memory(tmp_path / "missing") is None


def test_a_job_demands_what_its_backend_and_its_storage_need() -> None:
    assert examination.Demand.of(job(), None) == examination.Demand(cores=2)
    rocks = job(
        backend=settings.StateBackendSettings(type="rocksdb"),
        savepoint=settings.SavepointSettings(storage="s3://bucket/savepoints"),
    )
    demand = examination.Demand.of(rocks, 7)
    assert dataclasses.replace(demand, places=()) == examination.Demand(
        rocksdb=True, s3=True, memory_bytes=7, cores=2
    )
    assert [place.url for place in demand.places] == ["s3://bucket/savepoints"]


@pytest.mark.parametrize(
    ("status", "ok", "remedy"),
    [
        pytest.param("in use", True, "", id="in-use"),
        pytest.param("turned off by SPARKSTATE_COMPILED=0", True, "", id="turned-off"),
        pytest.param("not installed", False, "pip install 'sparkstate[compiled]'", id="missing"),
        pytest.param("built for another version", False, "pip install sparkstate-compiled==", id="version"),
        pytest.param("cannot be loaded: no GLIBC_2.99", False, "--force-reinstall", id="broken"),
    ],
)
def test_the_compiled_path_is_shown_with_the_reason_why_it_is_not_in_use(
    status: str, ok: bool, remedy: str
) -> None:
    check = software.check_compiled(status)
    assert (check.ok, check.required, check.detail) == (ok, False, status)
    assert remedy in check.remedy
    assert bool(check.remedy) == (not ok)


def test_the_report_says_of_the_compiled_path_what_the_engine_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def shown() -> str:
        (check,) = [
            one for one in examination.examine({}, tmp_path, None) if one.name == "compiled record path"
        ]
        return check.detail

    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    assert shown() == compiled.status()
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert shown() == "turned off by SPARKSTATE_COMPILED=0"
