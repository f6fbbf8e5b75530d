"""Folders in which slots look for the modules beside a job's file, and code that ends its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from sparkstate import errors
from sparkstate.driver import __main__ as driver
from sparkstate.driver import entry
from sparkstate.settings import EntryPoint

LOAD = """\
import sys
from sparkstate.driver import entry
from sparkstate.settings import EntryPoint
job, folders = entry.load(EntryPoint(python_file=sys.argv[1]))
print(*folders, job(None, {}), sep="\\n")
"""
LOAD_MODULE = """
import sys
from sparkstate import errors
from sparkstate.driver import entry
from sparkstate.settings import EntryPoint
try:
    entry.load(EntryPoint(module=sys.argv[1]))
except errors.UserCodeError as error:
    print(f"UserCodeError: {error}")
"""


def mounted(folder: Path, pod: str) -> Path:
    """A ConfigMap with a job and a module as the kubelet of a pod mounts it; the job's file."""
    content = folder / f"..{pod}"
    content.mkdir(parents=True)
    (content / "job.py").write_text("import beside\ndef job(spark, params): return beside.WORD\n")
    (content / "beside.py").write_text("WORD = 'found'\n")
    newest = folder / "..data"
    newest.unlink(missing_ok=True)
    newest.symlink_to(content.name)
    for name in ("job.py", "beside.py"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(Path("..data") / name)
    return folder / "job.py"


def printed(*command: str, folders: tuple[str, ...] = ()) -> list[str]:
    """Lines that a new process of Python prints, with these folders on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, "-c", *command], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_an_executor_finds_the_modules_of_a_configmap_in_a_mount_of_its_own(tmp_path: Path) -> None:
    file = mounted(tmp_path / "code", "of-the-driver")
    *folders, word = printed(LOAD, str(file))
    assert tuple(folders) == entry.folders(EntryPoint(python_file=str(file)))
    assert word == "found"
    for each in tmp_path.glob("code/..of-the-driver/*"):
        each.unlink()
    mounted(tmp_path / "code", "of-the-executor")
    assert printed("import beside; print(beside.WORD)", folders=tuple(folders)) == ["found"]


@pytest.mark.parametrize("line", ["from .fns import Fn", "from . import fns"])
def test_a_job_in_a_package_is_told_how_to_import_what_lies_beside_it(tmp_path: Path, line: str) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "fns.py").write_text("class Fn: ...\n")
    (package / "job.py").write_text(f"{line}\ndef job(spark, params): ...\n")
    remedy = (
        r"cannot be imported: .*; spec\.pythonFile is loaded as a file .* write `from fns import …` in place"
    )
    with pytest.raises(errors.DeclarationError, match=remedy):
        entry.load(EntryPoint(python_file=str(package / "job.py")))


def test_a_link_to_a_script_elsewhere_has_its_modules_there(tmp_path: Path) -> None:
    real = mounted(tmp_path / "elsewhere", "here").resolve()
    (tmp_path / "job.py").symlink_to(real)
    *folders, word = printed(LOAD, str(tmp_path / "job.py"))
    assert folders == [str(tmp_path), str(real.parent)]
    assert word == "found"


@pytest.mark.parametrize("code", ["", "0", "1", "'no data'"])
def test_a_job_whose_code_ends_the_process_has_not_finished(tmp_path: Path, code: str) -> None:
    """An exit code of 0 is that of a job that has finished."""
    file = tmp_path / "leaving_job.py"
    file.write_text(f"import sys\ndef job(spark, params): ...\nsys.exit({code})\n")
    with pytest.raises(errors.UserCodeError, match=r"leaving_job\.py called sys\.exit\("):
        entry.load(EntryPoint(python_file=str(file)))
    told = printed(LOAD_MODULE, "leaving_job", folders=(str(tmp_path),))
    assert told[:3] == ["UserCodeError:", "leaving_job", "called"]


@pytest.mark.parametrize(
    ("error", "told"), [(KeyError("inputs"), "'inputs'"), (KeyError(), "it has no message")]
)
def test_an_error_of_an_unknown_class_is_named_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    told: str,
) -> None:
    def run(*_: object) -> None:
        raise error

    monkeypatch.setattr(driver, "_run", run)
    word = tmp_path / "termination-log"
    options = Namespace(termination_log=word, fenced_exit_zero=False)
    assert driver._ended(options, driver.LastLines()) == 1
    said = json.loads(word.read_text())
    assert (said["reason"], said["message"]) == ("KeyError", told)
    assert capsys.readouterr().err.splitlines()[-1] == f"KeyError: {told}"


def test_a_driver_whose_code_ends_the_process_elsewhere_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_run", lambda *_: sys.exit(0))
    word = tmp_path / "termination-log"
    options = Namespace(termination_log=word, fenced_exit_zero=False)
    assert driver._ended(options, driver.LastLines()) == errors.UserCodeError.exit_code == 1
    said = json.loads(word.read_text())
    assert (said["reason"], said["exit_code"]) == ("UserCodeError", 1)
    assert "sys.exit(0)" in said["message"]
