"""The examples' manifests for a cluster are what both operator and engine take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkstate import manifest
from sparkstate_operator.core import memory
from sparkstate_operator.core import settings as operator_settings

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*/kubernetes.yaml"))


def test_there_is_one() -> None:
    assert ROOT / "examples" / "01-flight-rotations" / "kubernetes.yaml" in EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_manifest_is_valid_and_adds_up(path: Path) -> None:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    assert manifest.load(path).name == document["metadata"]["name"]
    resolved = operator_settings.resolve(document["spec"])
    assert memory.problems(resolved, memory.sums(resolved)) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_script_that_its_config_map_holds_is_beside_it(path: Path) -> None:
    spec = yaml.safe_load(path.read_text())["spec"]
    assert (path.parent / spec["configMapRef"]["key"]).is_file()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_image_is_the_one_of_this_version(path: Path) -> None:
    version = (ROOT / "engine" / "pyproject.toml").read_text().split('version = "')[1].split('"')[0]
    assert yaml.safe_load(path.read_text())["spec"]["image"] == f"sparkstate/job:{version}"


def test_the_page_names_the_version_and_files_that_are_there() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    version = (ROOT / "engine" / "pyproject.toml").read_text().split('version = "')[1].split('"')[0]
    assert f"FROM sparkstate/job:{version}" in page
    for name in ("packaging/prune.py", "tools/src/sparkstate_tools/demo/prepare.py"):
        assert name in page
        assert (ROOT / name).is_file()
