"""What the documents print for a cluster works as printed: commands of helm are rendered here, objects are admitted.
``tests/e2e/test_printed_commands.py`` runs the commands."""

from __future__ import annotations

import json
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
from sparkstate_tools.kubernetes.cluster import Cluster

PAGES = ("README.md", "docs/kubernetes.md", "docs/helm.md", "docs/operator.md")


READERS_OWN = "registry.example.org/"
"""A registry that stands for the reader's own."""


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


def blocks() -> dict[str, str]:
    """The YAML and the Dockerfiles that README, docs/ and examples/ print, by page and line."""
    found = {}
    for page in [
        tree.ROOT / "README.md",
        *(tree.ROOT / "docs").rglob("*.md"),
        *tree.ROOT.glob("examples/*/*.md"),
    ]:
        text = page.read_text()
        for block in re.finditer(r"^```(?:yaml|dockerfile)\n(.*?)^```", text, re.S | re.M):
            line = text.count("\n", 0, block.start()) + 1
            found[f"{page.relative_to(tree.ROOT)}:{line}"] = block[1]
    return found


IMAGES = [
    (where, image)
    for where, block in blocks().items()
    for image in re.findall(r"^[- ]*(?:image: *|FROM )[\"']?([^\s\"']+)", block, re.M)
]


def test_manifests_and_dockerfiles_name_images() -> None:
    assert {"docs/operator.md", "docs/kubernetes.md"} <= {where.partition(":")[0] for where, _ in IMAGES}


@pytest.mark.parametrize(("where", "image"), IMAGES, ids=[f"{where}-{image}" for where, image in IMAGES])
def test_an_image_that_is_printed_is_one_that_is_built_or_the_reader_s_own(where: str, image: str) -> None:
    built = [images.image(target).tag for target in images.TARGETS]
    assert image in built or image.startswith(READERS_OWN), (
        f"{where}: nobody publishes {image}; take one of {built}"
    )


OBJECTS = [
    (where, each)
    for where, block in blocks().items()
    if re.search(r"^apiVersion:", block, re.M)
    for each in yaml.safe_load_all(block)
    if "kind" in each
]


@pytest.mark.usefixtures("crds")
def test_the_api_server_admits_every_object_that_is_printed(cluster: Cluster, namespace: str) -> None:
    assert {"Job", "ServiceAccount", "PodDisruptionBudget", "StateSnapshot"} <= {
        each["kind"] for _, each in OBJECTS
    }
    for where, each in OBJECTS:
        body = {**each, "metadata": {**each["metadata"], "namespace": namespace}}
        told = cluster.kubectl(
            "create", "--dry-run=server", "--validate=strict", "-f", "-", text=json.dumps(body)
        )
        assert "created (server dry run)" in told, where


def test_pods_of_jobs_that_are_printed_pass_pod_security_restricted(cluster: Cluster) -> None:
    jobs = [each for _, each in OBJECTS if each["kind"] == "Job"]
    assert jobs
    with cluster.namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        for job in jobs:
            metadata = {"name": job["metadata"]["name"], "namespace": namespace}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": job["spec"]["template"]["spec"],
            }
            cluster.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(pod))
