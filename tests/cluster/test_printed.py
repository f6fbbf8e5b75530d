"""What the documents print for installing the operator works as printed: here it is rendered.
``tests/e2e/test_printed_commands.py`` runs it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import build_images
import pytest
import yaml
from support.cluster.chart import helm
from support.commands.printed import commands
from support.repository import tree

from sparkstate_tools import images

PAGES = ("README.md", "docs/kubernetes.md", "docs/helm.md", "docs/operator.md")


def printed(page: str) -> list[str]:
    """The page's commands of helm that take the chart."""
    return [line for line in commands(page) if line.startswith("helm ") and " charts/" in line]


COMMANDS = [(page, line) for page in PAGES for line in printed(page)]


def test_three_pages_tell_how_to_install() -> None:
    assert {"README.md", "docs/kubernetes.md", "docs/helm.md"} <= {page for page, _ in COMMANDS}


def rendered(line: str, folder: Path) -> list[dict]:
    """What the command would install. Files that it names are the reader's own: here they are empty."""
    words = shlex.split(line)[1:]
    assert words[0] in ("install", "upgrade"), line
    words = [word for word in words[1:] if word not in ("--install", "--take-ownership")]
    for place, word in enumerate(words):
        if word.endswith(".yaml"):
            (folder / word).write_text("{}")
            words[place] = str(folder / word)
        elif word.startswith("charts/"):
            words[place] = str(tree.ROOT / word)
    return [each for each in yaml.safe_load_all(helm("template", *words, "--kube-version", "1.36.3")) if each]


@pytest.mark.parametrize(
    ("page", "line"), COMMANDS, ids=[f"{page}-{number}" for number, (page, _) in enumerate(COMMANDS)]
)
def test_what_is_printed_installs_the_images_that_are_built(page: str, line: str, tmp_path: Path) -> None:
    """`make images` gives the names, `--push` puts a registry before them."""
    (deployment,) = (each for each in rendered(line, tmp_path) if each["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    (engine,) = (each.partition("=")[2] for each in container["args"] if each.startswith("--engine-image="))
    told = re.findall(r"imageRegistry=(\S+)", line)
    before = f"{told[0]}/" if told else ""
    assert container["image"] == before + images.image("operator").tag
    assert engine == before + images.image("job").tag


def test_an_image_that_is_pushed_has_the_name_that_the_chart_asks_for() -> None:
    options = build_images._options(["--push", "registry.example.org/team"])
    for target in images.TARGETS:
        command = build_images.buildx(images.image(target), options)
        assert f"registry.example.org/team/{images.image(target).tag}" in command
