"""What stands in the README works as it stands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from support.repository import tree

from sparkstate import Types, manifest
from sparkstate.cli import main
from sparkstate.testing import KeyedProcessHarness

README = (tree.ROOT / "README.md").read_text()
DAY_MS = 24 * 3_600_000


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no {language}"
    return found[1]


@pytest.fixture
def rotation() -> Any:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "README.md", "exec"), names)
    assert callable(names["job"])
    return names["Rotation"]()


def test_the_function_adds_up_and_forgets_after_a_day_without_departures(rotation: Any) -> None:
    with KeyedProcessHarness(rotation, key=lambda row: row.tailnum, key_type=Types.STRING()) as harness:
        harness.process_element({"tailnum": "N1", "arr_delay": 5}, timestamp=1000)
        harness.process_element({"tailnum": "N1", "arr_delay": -2}, timestamp=500)
        assert harness.output() == [("N1", 5), ("N1", 3)]
        harness.process_watermark(500 + DAY_MS)
        assert harness.state("delay", "N1") == 3
        harness.process_watermark(1000 + DAY_MS)
        assert harness.state("delay", "N1") is None
        assert harness.num_event_timers() == 0


def test_the_manifest_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(block("python"))
    (tmp_path / "job.yaml").write_text(block("yaml"))
    settings = manifest.resolve(manifest.load(tmp_path / "job.yaml"), base_dir=tmp_path).settings
    assert settings.backend.type == "rocksdb"
    assert settings.checkpoint.storage == "s3://bucket/jobs"
    assert settings.slots == 2


def test_what_is_installed_from_a_clone_names_all_that_no_index_has() -> None:
    """Whoever registers one of the names there would be installed in its stead."""
    (line,) = re.findall(r"^pip install (.*?)(?:  #.*)?$", README, re.MULTILINE)
    folders = {re.sub(r"\[.*", "", word.strip("'")).removeprefix("./") for word in line.split()}
    needed = tomllib.loads((tree.ROOT / "engine" / "pyproject.toml").read_text())["project"]["dependencies"]
    own = {word.partition("==")[0].removeprefix("sparkstate-") for word in needed if "sparkstate" in word}
    assert own and folders == {"engine", *own}


@pytest.mark.parametrize("page", ["README.md", "engine/README.md"])
def test_every_command_line_is_one_that_the_tool_knows(page: str) -> None:
    text = (tree.ROOT / page).read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^sparkstate ([a-z-]+)(.*?)(?:  #.*)?$", "\n".join(blocks), re.MULTILINE)
    assert lines
    for name, rest in lines:
        command = main.cli.commands[name]
        known = {option for parameter in command.params for option in parameter.opts}
        assert isinstance(command, click.Command)
        assert {word for word in rest.split() if word.startswith("--")} <= known
