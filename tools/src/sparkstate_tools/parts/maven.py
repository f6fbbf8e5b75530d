"""Jars from Maven Central: pinned in ``jars/*.txt`` with their SHA-256, fetched once into a cache.

Where ``mvn`` is on the PATH it does the fetching, with whatever mirror its settings name; elsewhere the jars
are read over HTTPS from Maven Central itself (``SPARKSTATE_MAVEN_REPOSITORY`` names another repository).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

LISTS = Path(__file__).parent / "jars"
CENTRAL = "https://repo.maven.apache.org/maven2"


@dataclass(frozen=True)
class Jar:
    """One pinned jar."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Where a Maven repository keeps it."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def jars(name: str) -> list[Path]:
    """The jars of the list ``jars/<name>.txt``, complete and verified, in the user's cache."""
    wanted = [_parse(line) for line in (LISTS / f"{name}.txt").read_text().splitlines()]
    folder = _cache() / name
    folder.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in wanted if not _is_whole(folder / jar.name, jar)]
    if missing:
        print(f"fetching {len(missing)} jars of {name} into {folder}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            fetch = _by_mvn if shutil.which("mvn") else _by_https
            fetch(missing, Path(temporary))
            _take_over(missing, Path(temporary), folder)
    return [folder / jar.name for jar in wanted]


def _parse(line: str) -> Jar:
    coordinates, checksum = line.split()
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, checksum)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "sparkstate" / "jars"


def _is_whole(path: Path, jar: Jar) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def _take_over(missing: list[Jar], source: Path, folder: Path) -> None:
    for jar in missing:
        if not _is_whole(source / jar.name, jar):
            raise RuntimeError(
                f"{jar.name}: what was fetched is not what {LISTS} pins (SHA-256 {jar.sha256})"
            )
        (source / jar.name).rename(folder / jar.name)


def _by_mvn(missing: list[Jar], folder: Path) -> None:
    everything = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>{everything}</dependency>"
        for jar in missing
    )
    pom = folder / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>sparkstate</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"mvn could not fetch the jars:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _by_https(missing: list[Jar], folder: Path) -> None:
    repository = os.environ.get("SPARKSTATE_MAVEN_REPOSITORY", CENTRAL).rstrip("/")
    for number, jar in enumerate(missing, start=1):
        print(f"  {number}/{len(missing)} {jar.name}", file=sys.stderr)
        with urllib.request.urlopen(f"{repository}/{jar.path}", timeout=60) as response:
            (folder / jar.name).write_bytes(response.read())
