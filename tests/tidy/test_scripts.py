"""What the scripts behind ``make`` decide."""

from __future__ import annotations

import subprocess
from email.message import Message
from importlib import metadata
from pathlib import Path

import bootstrap
import licences
import pytest
import run_tests

from sparkstate_tools.verdicts import junit


@pytest.mark.parametrize(
    ("environ", "pip", "index"),
    [
        pytest.param({}, {}, None, id="nothing-said"),
        pytest.param({}, {"index-url": "https://a/simple"}, "https://a/simple", id="pip-said"),
        pytest.param(
            {"UV_DEFAULT_INDEX": "https://b/simple"},
            {"index-url": "https://a/simple"},
            "https://b/simple",
            id="uv-wins",
        ),
    ],
)
def test_uv_takes_the_index_that_the_user_configured(
    environ: dict[str, str], pip: dict[str, str], index: str | None
) -> None:
    env = bootstrap.uv_environment(environ, pip)
    assert env.get("UV_DEFAULT_INDEX") == index
    assert bootstrap.uses_own_index(env) == (index is not None)


def test_uv_takes_pips_certificate_unless_it_has_one_of_its_own() -> None:
    assert bootstrap.uv_environment({}, {"cert": "/a.pem"})["SSL_CERT_FILE"] == "/a.pem"
    own = {"SSL_CERT_FILE": "/b.pem"}
    assert bootstrap.uv_environment(own, {"cert": "/a.pem"})["SSL_CERT_FILE"] == "/b.pem"


def test_uv_compiles_what_it_installs_unless_the_user_says_otherwise() -> None:
    assert bootstrap.uv_environment({}, {})["UV_COMPILE_BYTECODE"] == "1"
    assert bootstrap.uv_environment({"UV_COMPILE_BYTECODE": "0"}, {})["UV_COMPILE_BYTECODE"] == "0"


def test_uv_never_downloads_a_python_and_knows_nothing_of_an_active_environment() -> None:
    env = bootstrap.uv_environment({"VIRTUAL_ENV": "/elsewhere", "PYTHONPATH": "/elsewhere"}, {})
    assert env["UV_PYTHON_DOWNLOADS"] == "never"
    assert "VIRTUAL_ENV" not in env
    assert "PYTHONPATH" not in env


def program(path: Path, prints: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}' >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ("The operation could not be completed", None),
    ],
)
def test_the_version_of_java_is_read_from_what_it_says(
    said: str, version: int | None, tmp_path: Path
) -> None:
    assert bootstrap.java_version(program(tmp_path / "java", said)) == version


def test_the_newer_java_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "old" / "bin" / "java", 'version "1.8.0_392"')
    program(tmp_path / "path" / "java", 'version "21.0.1"')
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert bootstrap.system_java({"JAVA_HOME": str(tmp_path / "old")}) == 21
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap.system_java({}) is None


def test_an_old_uv_and_one_that_does_not_start_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    program(tmp_path / "path" / "uv", "uv 0.4.30")
    program(tmp_path / "tools" / "bin" / "uv", "no such version", code=1)
    assert bootstrap.find_uv(tmp_path / "tools") is None
    program(tmp_path / "tools" / "packages" / "bin" / "uv", "uv 0.13.8")
    assert bootstrap.find_uv(tmp_path / "tools") == tmp_path / "tools" / "packages" / "bin" / "uv"


def test_without_a_fitting_python_the_message_names_the_command_that_installs_one(tmp_path: Path) -> None:
    script = Path(bootstrap.__file__).with_name("bootstrap.sh")
    program(tmp_path / "python3", "Python 3.9.18", code=1)
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    (tmp_path / "cat").symlink_to("/bin/cat")
    done = subprocess.run(
        ["/bin/sh", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Python 3.9.18" in done.stderr
    assert "sudo apt-get install python3 python3-venv" in done.stderr


def case(outcome: str, name: str = "test_a") -> junit.Case:
    return junit.Case(f"tests/unit/test_x.py::{name}", name, outcome, 1.0, "said so\nin two lines")


def test_the_report_of_a_test_run_names_each_failure_and_sums_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_tests, "SUMMARY", tmp_path / "report.txt")
    monkeypatch.setattr(run_tests, "FAILURES", tmp_path / "failures.txt")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path / "junit")
    unit = run_tests.Result(run_tests.Stage("unit", 1), 1, 2.0, [case("passed"), case("failed", "test_b")])
    empty = run_tests.Result(run_tests.Stage("contract", 1), run_tests.NO_TESTS_COLLECTED, 1.0, [])
    assert run_tests.report([unit, empty], []) == 1
    said = capsys.readouterr().out
    assert "FAILED   tests/unit/test_x.py::test_b: said so" in said
    assert "1 failed, 1 passed in 3s" in said
    assert said.splitlines()[-1].startswith("FAIL")
    passed = run_tests.Result(run_tests.Stage("unit", 1), 0, 2.0, [case("passed")])
    assert run_tests.report([passed, empty], []) == 0
    assert run_tests.report([passed], ["F01: missing"]) == 1


def test_a_stage_that_broke_off_is_no_success_even_without_a_failed_case() -> None:
    assert not run_tests.Result(run_tests.Stage("unit", 1), -1, 1.0, [case("passed")]).ok


def test_a_stage_over_its_limit_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"while :; do echo >> {alive}; sleep 0.05; done"
    assert run_tests.run_with_limit(["sh", "-c", f"sh -c '{child}'; :"], 2) == -1
    size = alive.stat().st_size
    assert size > 0
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["tail", "-f", "/dev/null"], timeout=0.3, check=False)
    assert alive.stat().st_size == size


class Package(metadata.Distribution):
    """A package with these lines of metadata."""

    def __init__(self, **lines: str) -> None:
        self.message = Message()
        for key, value in {"Name": "sample", "Version": "1", **lines}.items():
            self.message[key.replace("_", "-")] = value

    @property
    def metadata(self) -> Message:  # type: ignore[override]
        return self.message

    def read_text(self, filename: str) -> str | None:
        return None

    def locate_file(self, path: object) -> Path:  # type: ignore[override]
        return Path()


def test_whole_jobs_run_beside_the_other_stages_where_there_are_two_processors() -> None:
    unit, long = run_tests.Stage("unit", 1), run_tests.Stage("integration", 1, beside=True)
    assert run_tests.lanes([unit, long], 2) == [[long], [unit]]
    assert run_tests.lanes([unit, long], 1) == [[unit, long]]
    assert run_tests.lanes([long], 2) == [[long]]
    assert sum(stage.beside for stage in run_tests.STAGES) == 1


@pytest.mark.parametrize(
    ("lines", "shipped", "fits"),
    [
        pytest.param({"License_Expression": "MIT AND PSF-2.0"}, True, True, id="permissive-expression"),
        pytest.param({"License": "BSD 3-Clause"}, True, True, id="in-words"),
        pytest.param(
            {"Classifier": "License :: OSI Approved :: Apache Software License"}, True, True, id="classifier"
        ),
        pytest.param({"License_Expression": "GPL-3.0-only"}, True, False, id="copyleft"),
        pytest.param({"License_Expression": "MIT AND GPL-3.0-only"}, False, False, id="copyleft-in-part"),
        pytest.param({"License_Expression": "MPL-2.0"}, False, True, id="for-developers"),
        pytest.param({"License_Expression": "MPL-2.0"}, True, False, id="for-developers-only"),
        pytest.param({}, True, False, id="silent"),
    ],
)
def test_a_licence_fits_or_is_named(lines: dict[str, str], shipped: bool, fits: bool) -> None:
    found = licences.problems([Package(**lines)], {"sample"} if shipped else set())
    assert (found == []) == fits
