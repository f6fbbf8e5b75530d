"""The examples, run one after another as their pages say, do not find one another's files."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
MADE = re.compile(r"^\S*python (?:-m )?(\S+) (/tmp/\S+)", re.MULTILINE)
"""A line that runs a program which makes input into a folder."""


def local_manifests() -> list[tuple[Path, dict[str, Any]]]:
    paths = [path for path in EXAMPLES.glob("*/*.yaml") if path.name != "kubernetes.yaml"]
    return [(path, yaml.safe_load(path.read_text())["spec"]) for path in sorted(paths)]


def is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def test_a_folder_of_input_is_made_by_one_program() -> None:
    makers: dict[str, set[str]] = defaultdict(set)
    for page in EXAMPLES.glob("*/README.md"):
        for program, folder in MADE.findall(page.read_text()):
            makers[folder].add(program)
    writers = {
        folder: {p for p in programs if not p.endswith(("on_spark.py", "on_flink.py"))}
        for folder, programs in makers.items()
    }
    assert {folder: found for folder, found in writers.items() if len(found) > 1} == {}
    for path, spec in local_manifests():
        for name, source in spec["params"].items():
            if name != "output" and str(source).startswith("/tmp/"):
                of_folder = {
                    p for folder, found in writers.items() if is_within(source, folder) for p in found
                }
                assert len(of_folder) == 1, (path, source)


def test_no_two_examples_write_into_one_folder() -> None:
    users: dict[str, set[Path]] = defaultdict(set)
    for path, spec in local_manifests():
        for folder in (spec["params"]["output"], spec["checkpointing"]["storage"]):
            users[folder].add(path.parent)
    assert {folder: found for folder, found in users.items() if len(found) > 1} == {}
