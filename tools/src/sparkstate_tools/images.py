"""The images of the Dockerfile: their names, where their archives lie, and with what they can be built here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.checkout import ROOT

OUTPUT = ROOT / "build" / "images"
TARGETS = {"operator": "operator", "job": "engine"}
"""Target of the Dockerfile, and the project folder whose version it carries."""
PACKAGES = {
    "/usr/bin/buildah": "buildah",
    "/usr/sbin/debootstrap": "debootstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}
"""Programs that buildah needs, and Debian's packages (Ubuntu's too, where the keyring is not there by itself)."""


class CannotBuild(RuntimeError):
    """This machine cannot build images; the message says why and what to do."""


@dataclass(frozen=True)
class Image:
    """One image to build."""

    target: str
    tag: str
    archive: Path


def image(target: str) -> Image:
    """The image of a target, with the version of its distribution."""
    project = tomllib.loads((ROOT / TARGETS[target] / "pyproject.toml").read_text())["project"]
    return Image(target, f"sparkstate/{target}:{project['version']}", OUTPUT / f"{target}.tar")


def docker_answers() -> bool:
    """Whether there is a Docker with a daemon and buildx."""
    return succeeds(["docker", "info"], 30) and succeeds(["docker", "buildx", "version"], 30)


def require_builder(named: str | None = None, *, install: bool) -> str:
    """``docker`` where it answers, else ``buildah``, with its tools. Raises ``CannotBuild`` when there is none."""
    builder = named or ("docker" if docker_answers() else "buildah")
    if builder == "buildah":
        _require_tools(install=install)
    return builder


def _require_tools(*, install: bool) -> None:
    """buildah and debootstrap; what is missing is installed if that was asked for, else named."""
    if os.geteuid() != 0:
        raise CannotBuild(
            "buildah is used as root here (file owners in the image); run this as root, or start Docker"
        )
    missing = _missing()
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if not install or shutil.which("apt-get") is None:
        raise CannotBuild(
            f"no Docker daemon answers, and {', '.join(missing)} is missing: {' '.join(command)}, or let this do it "
            "with --install-tools (SPARKSTATE_INSTALL_TOOLS=1)"
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["apt-get", "update", "-q"], command):
        say(" ".join(words))
        subprocess.run(words, check=False, stdout=subprocess.DEVNULL, env=quiet)
    if _missing():
        raise CannotBuild(f"apt-get could not install {', '.join(_missing())}, and no Docker daemon answers")


def _missing() -> list[str]:
    return [
        package
        for path, package in PACKAGES.items()
        if not Path(path).exists() and not shutil.which(Path(path).name)
    ]


def succeeds(command: list[str], timeout_s: float) -> bool:
    """Whether a command ends well in time; its output is of no interest."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def say(text: str) -> None:
    """One line of progress."""
    print(f"[images] {text}", file=sys.stderr, flush=True)
