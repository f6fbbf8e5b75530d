"""The locked packages on the images' Python, for both processors that images are built for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parents[3]
LOCK = {one["name"]: one for one in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
PYTHON = "cp313"
"""Debian 13's."""
IMAGES = {"operator": ("sparkstate-operator", ()), "job": ("sparkstate", ("rocksdb", "s3"))}
SOURCE_ALONE = {"pyspark"}
"""Published without a wheel; it is Python and jars, and nothing of it is compiled."""


def packages(name: str, extras: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What is installed for a distribution from the package index: ours are built beside it."""
    found: dict[str, dict[str, Any]] = {}
    left = list(dependencies(LOCK[name], extras))
    while left:
        one, more = left.pop()
        if one not in found:
            found[one] = LOCK[one]
            left.extend(dependencies(LOCK[one], more))
    return {one: package for one, package in found.items() if "editable" not in package["source"]}


def dependencies(package: dict[str, Any], extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    listed = list(package.get("dependencies", ()))
    for extra in extras:
        listed += package.get("optional-dependencies", {}).get(extra, ())
    for one in listed:
        yield one["name"], tuple(one.get("extra", ()))


def fits(tag: Tag, processor: str) -> bool:
    python = tag.abi == "abi3" or tag.interpreter in ("py3", PYTHON)
    libc = re.fullmatch(rf"manylinux.*_{processor}", tag.platform)
    return python and (tag.platform == "any" or libc is not None)


def test_the_images_have_the_python_of_debian_13() -> None:
    assert "trixie-slim" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
@pytest.mark.parametrize("image", IMAGES)
def test_every_locked_package_of_an_image_has_a_wheel_for_its_python(image: str, processor: str) -> None:
    installed = packages(*IMAGES[image])
    assert len(installed) > 20
    without = {
        name
        for name, package in installed.items()
        if not any(
            fits(tag, processor)
            for wheel in package.get("wheels", ())
            for tag in parse_wheel_filename(wheel["url"].rsplit("/", 1)[1])[3]
        )
    }
    assert without - SOURCE_ALONE == set()


@pytest.mark.parametrize("project", ["engine", "operator"])
def test_each_side_takes_the_reading_of_the_spec_in_exactly_its_own_version(project: str) -> None:
    spec, own = (
        tomllib.loads((ROOT / one / "pyproject.toml").read_text())["project"] for one in ("spec", project)
    )
    assert spec["name"] == "sparkstate-spec"
    assert own["version"] == spec["version"]
    assert f"sparkstate-spec=={spec['version']}" in own["dependencies"]


def test_the_reading_of_the_spec_needs_nothing_that_one_side_does_not_carry() -> None:
    def needed(folder: str) -> set[str]:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        return {re.split("[=<>]", one)[0] for one in project["dependencies"]}

    assert needed("spec") <= needed("engine") & needed("operator")
