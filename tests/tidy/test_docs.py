"""What the documents say about the repository is true."""

from __future__ import annotations

import configparser
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.repository import tree

from sparkstate import manifest
from sparkstate.state_backend import PredefinedOptions

PAGES = [path for path in tree.files(".md") if "fixtures" not in path.parts]
ARCHITECTURE = (tree.ROOT / "docs" / "ARCHITECTURE.md").read_text()


def relative_links(page: Path) -> Iterator[str]:
    without_code = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code):
        if not re.match(r"[a-z]+:|#", target):
            yield target.split("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=tree.name)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    assert [target for target in relative_links(page) if not (page.parent / target).exists()] == []


def layers_of_the_linter() -> list[set[str]]:
    config = configparser.ConfigParser()
    config.read(tree.ROOT / ".importlinter")
    lines = config["importlinter:contract:engine-layers"]["layers"].split("\n")
    return [set(re.findall(r"\w+", line)) for line in lines if line.strip()]


def test_the_drawing_of_the_layers_is_the_one_that_the_linter_keeps() -> None:
    drawing = ARCHITECTURE.split("## The layers")[1].split("```")[1]
    names = {name for layer in layers_of_the_linter() for name in layer}
    drawn = [set(re.findall(r"\w+", line)) & names for line in drawing.strip().split("\n")]
    assert [layer for layer in drawn if layer] == layers_of_the_linter()


@pytest.mark.parametrize("layer", sorted({name for layer in layers_of_the_linter() for name in layer}))
def test_every_layer_has_its_reason(layer: str) -> None:
    told = re.findall(r"^- \*\*(.+?)\*\*", ARCHITECTURE, re.MULTILINE)
    words = {word for heading in told for word in re.findall(r"\w+", heading)}
    base = {"columns", "phases", "restart", "java", "settings", "keygroups", "handles"}
    assert layer in words | base


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "tests/README.md"])
def test_every_make_command_in_the_text_is_a_target(page: str) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (tree.ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", (tree.ROOT / page).read_text(), re.MULTILINE))
    assert named <= targets


def test_the_page_of_state_backends_says_which_to_take_and_warns() -> None:
    page = (tree.ROOT / "docs" / "state-backends.md").read_text()
    sentences = " ".join(page.split())
    assert all(f"`{option.name}`" in page for option in PredefinedOptions)
    assert "Take `hashmap` (the default) when" in sentences
    assert "Take `rocksdb` for" in sentences
    assert "**Keys and factories are for experts.**" in sentences
    assert "A ratio of 0 is strongly advised against" in sentences
    assert "They cost:" in sentences


def test_every_yaml_of_the_page_of_state_backends_is_a_manifest(tmp_path: Path) -> None:
    page = (tree.ROOT / "docs" / "state-backends.md").read_text()
    head = "apiVersion: sparkstate.io/v1alpha1\nkind: StatefulSparkJob\nmetadata: {name: a}\n"
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        more = "  pythonFile: job.py\n  checkpointing: {storage: state}\n"
        settings = manifest.resolve(manifest.load(head + block + more), base_dir=tmp_path).settings
        assert settings.backend.predefined_options == "FLASH_SSD_OPTIMIZED"


def test_every_class_that_the_page_of_state_backends_imports_is_there() -> None:
    page = (tree.ROOT / "docs" / "state-backends.md").read_text()
    for module, name in re.findall(r"^from (\S+) import (\w+)$", page, re.MULTILINE):
        assert hasattr(importlib.import_module(module), name)
