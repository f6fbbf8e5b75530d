"""Ctrl-C while the command line is still being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from sparkstate.cli import start

CALL = "import sys; from sparkstate.cli.start import main; sys.exit(main())"


def test_ctrl_c_during_the_imports_is_told_in_a_line(tmp_path: Path) -> None:
    """Click is the first that the commands load; in its place stands a module that says so and waits."""
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", CALL], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert told.decode() == "interrupted before the command began; nothing was started\n"
    assert process.returncode == 130


def test_the_console_script_begins_there() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="sparkstate")
    assert script.value == "sparkstate.cli.start:main"


@pytest.mark.parametrize(("word", "code"), [("--version", 0), ("nonsense", 2)])
def test_the_commands_run_with_their_exit_codes(
    word: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sparkstate", word])
    assert start.main() == code
