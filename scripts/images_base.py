"""The base of the images: Debian 13 by its digest, or made by debootstrap, as Debian makes its own, where no registry
is reached."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.images import succeeds

MADE = "localhost/sparkstate/debian:trixie-slim"
"""What debootstrap made. A name of its own: its digest is not the one that the Dockerfile asks for."""
SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"
PULL_TIMEOUT_S = 300
# What Debian's slim variant leaves out: documentation and translations. Licences (copyright files) stay.
LEFT_OUT = ("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/groff", "usr/share/lintian")
DPKG = """# Documentation and translations are not installed, as in Debian's own slim images.
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/lintian/*
"""
SOURCES = f"""deb {MIRROR} {SUITE} main
deb {MIRROR} {SUITE}-updates main
deb http://deb.debian.org/debian-security {SUITE}-security main
"""


@dataclass(frozen=True)
class Base:
    """The image that the others are built on."""

    name: str
    origin: str
    """``present``, ``pulled`` or ``made by debootstrap``."""


def pinned(dockerfile: Path) -> str:
    """The base that a Dockerfile names, by its digest."""
    found = re.search(r"^ARG BASE=(\S+@sha256:[0-9a-f]{64})$", dockerfile.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{dockerfile} has no line `ARG BASE=<image>@sha256:<digest>`; put it back")
    return found[1]


def ensure(buildah: list[str], name: str) -> Base:
    """The base image ``name``, or one of our own making, which is there afterwards and used until it is removed."""
    for there in (name, MADE):
        if succeeds([*buildah, "inspect", "--type", "image", there], 60):
            return Base(there, "present")
    _say(f"pulling {name} (given up after {PULL_TIMEOUT_S // 60} min)")
    if succeeds([*buildah, "pull", "--quiet", name], PULL_TIMEOUT_S):
        return Base(name, "pulled")
    _say(f"it cannot be pulled: making Debian's {SUITE} by debootstrap, about 2 min, once")
    make(buildah)
    return Base(MADE, "made by debootstrap")


def _say(text: str) -> None:
    print(f"[images] {text}", file=sys.stderr, flush=True)


def make(buildah: list[str]) -> None:
    """Bootstrap Debian into a folder and import it under the base image's name."""
    with tempfile.TemporaryDirectory(prefix="sparkstate-base-") as folder:
        root = Path(folder) / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, str(root), MIRROR],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        slim(root)
        archive = Path(folder) / "root.tar"
        subprocess.run(
            ["tar", "--numeric-owner", "--sort=name", "-C", str(root), "-cf", str(archive), "."], check=True
        )
        container = _output([*buildah, "from", "scratch"])
        _output([*buildah, "add", container, str(archive), "/"])
        _output(
            [*buildah, "config", "--cmd", "bash", "--env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", container]
        )
        _output([*buildah, "commit", "--quiet", "--rm", container, MADE])


def slim(root: Path) -> None:
    """Take documentation, translations and downloads out of a fresh root."""
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    for file in (root / "usr/share/doc").rglob("*"):
        if file.is_file() and file.name != "copyright":
            file.unlink()
    for pattern in ("var/cache/apt/**/*", "var/lib/apt/lists/**/*", "var/log/**/*"):
        for file in root.glob(pattern):
            if file.is_file():
                file.unlink()
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(DPKG)
    (root / "etc/apt/sources.list").write_text(SOURCES)


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
