"""What the documents say about the repository is true."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import tree

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
    targets = set(re.findall(r"^([a-z]+):", (tree.ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", (tree.ROOT / page).read_text(), re.MULTILINE))
    assert named <= targets
