"""What an image consists of, read from its archive: Debian's packages, Python's, and the jars.

The archive is Docker's format (``docker save``, ``buildah push docker-archive:``): layers as tar files, the lowest
first. Nothing is unpacked and nothing in it is run.
"""

from __future__ import annotations

import email.parser
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from packageurl import PackageURL

DPKG = ("var/lib/dpkg/status", "opt/java/legal/dpkg-status")
"""Lists of Debian's packages. The second one is the Dockerfile's: the Java is made of packages that are not installed
in the final image."""
HIDDEN, OPAQUE = ".wh.", ".wh..wh..opq"
"""How a layer says that a file, or a folder's whole content, of a layer below is gone."""
JAR_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar")
GROUPS = ("Implementation-Vendor-Id", "Bundle-SymbolicName", "Automatic-Module-Name")
"""Headers of a manifest that tell a jar's group where its maker left no ``pom.properties``; the first that is there."""
LARGEST_ENTRY = 1 << 20
"""Bytes of a ``pom.properties`` or manifest: what claims to be larger is none."""


@dataclass(frozen=True)
class Component:
    """One package."""

    name: str
    version: str
    purl: str
    """Its package URL: the kind of package, where it comes from, its name and version."""
    path: str
    """The file in the image that says so."""
    sha256: str = ""
    """Of a jar."""
    licence: str = ""
    """As the package says it; empty where it says nothing."""


@dataclass(frozen=True)
class Image:
    """One image of an archive."""

    tag: str
    id: str
    """SHA-256 of its configuration, as ``docker images --no-trunc`` shows it."""
    components: tuple[Component, ...]


def read(archive: Path) -> Image:
    """The first image of an archive. Raises ``ValueError`` for a file that is none."""
    with tarfile.open(archive) as outer:
        try:
            (manifest, *_) = json.load(_member(outer, "manifest.json"))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{archive} is no image archive in Docker's format: {error}") from error
        found: dict[str, tuple[Component, ...]] = {}
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=_member(outer, layer)) as tar:
                _lay(tar, found)
    each = {(one.purl, one.path): one for ones in found.values() for one in ones}
    ordered = tuple(sorted(each.values(), key=lambda one: (one.purl, one.path)))
    tags = manifest.get("RepoTags") or [archive.stem]
    return Image(tags[0].removeprefix("docker.io/"), PurePosixPath(manifest["Config"]).stem, ordered)


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    if found is None:
        raise KeyError(f"{name} is no file")
    return found


def _lay(layer: tarfile.TarFile, found: dict[str, tuple[Component, ...]]) -> None:
    """Put a layer over those below: ``found`` has the components of each file that tells of some."""
    for entry in layer:
        path = entry.name.removeprefix("./").lstrip("/")
        folder, _, name = path.rpartition("/")
        if name.startswith(HIDDEN):
            gone = f"{folder}/" if name == OPAQUE else f"{folder}/{name.removeprefix(HIDDEN)}"
            for known in [one for one in found if one == gone or one.startswith(f"{gone.rstrip('/')}/")]:
                del found[known]
        elif entry.isfile() and (reader := _reader(path)):
            content = layer.extractfile(entry)
            assert content is not None
            found[path] = tuple(reader(path, content.read()))


Reader = Callable[[str, bytes], Iterator[Component]]


def _reader(path: str) -> Reader | None:
    if path in DPKG:
        return debian
    if path.endswith(".dist-info/METADATA"):
        return python
    return jar if path.endswith(".jar") else None


def debian(path: str, content: bytes) -> Iterator[Component]:
    """The installed packages of a dpkg status file. Vulnerabilities are told of source packages: ``upstream``."""
    for block in re.split(r"\n\n+", content.decode()):
        fields = email.parser.HeaderParser().parsestr(block)
        name, version = fields.get("Package"), fields.get("Version")
        if not name or not version or "installed" not in fields.get("Status", "").split():
            continue
        source, _, other = fields.get("Source", name).partition(" ")
        upstream = f"{source}@{other.strip('()')}" if other else source
        qualifiers = {"arch": fields.get("Architecture", ""), "distro": "debian-13", "upstream": upstream}
        purl = PackageURL("deb", "debian", name, version, qualifiers)
        yield Component(name, version, str(purl), path)


def python(path: str, content: bytes) -> Iterator[Component]:
    """The distribution that a ``METADATA`` file is of."""
    fields = email.parser.HeaderParser().parsestr(content.decode(errors="replace"))
    name, version = fields["Name"], fields["Version"]
    purl = PackageURL("pypi", None, re.sub(r"[-_.]+", "-", name).lower(), version)
    yield Component(name, version, str(purl), path, licence=fields.get("License-Expression", ""))


def jar(path: str, content: bytes) -> Iterator[Component]:
    """A jar, and what its maker has packed into it. By the ``pom.properties`` that Maven leaves, else by its name."""
    digest = hashlib.sha256(content).hexdigest()
    named = JAR_NAME.fullmatch(PurePosixPath(path).name)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            poms, manifest = list(_poms(archive)), _manifest(archive)
    except zipfile.BadZipFile:
        poms, manifest = [], {}
    own = [pom for pom in poms if named and named["name"] == pom[1]] or (poms if len(poms) == 1 else [])
    if not own and named:
        own = [(_group(manifest, named["name"]), named["name"], named["version"])]
    for group, name, version in {*poms, *own}:
        purl = PackageURL("maven" if group else "generic", group or None, name, version)
        mine = (group, name, version) in own
        yield Component(name, version, str(purl), path, sha256=digest if mine else "")


def _poms(archive: zipfile.ZipFile) -> Iterator[tuple[str, str, str]]:
    for entry in archive.infolist():
        if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", entry.filename):
            told = dict(_lines(archive, entry, "="))
            if told.keys() >= {"groupId", "artifactId", "version"}:
                yield told["groupId"], told["artifactId"], told["version"]


def _manifest(archive: zipfile.ZipFile) -> Mapping[str, str]:
    try:
        return dict(_lines(archive, archive.getinfo("META-INF/MANIFEST.MF"), ":"))
    except KeyError:
        return {}


def _lines(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, mark: str) -> Iterator[tuple[str, str]]:
    if entry.file_size <= LARGEST_ENTRY:
        text = re.sub(r"\r?\n ", "", archive.read(entry).decode(errors="replace"))
        for line in text.splitlines():
            name, found, value = line.partition(mark)
            if found and not line.startswith("#"):
                yield name.strip(), value.strip()


def _group(manifest: Mapping[str, str], name: str) -> str:
    """A guess, as the name of the jar is: ``org.scala-lang.scala-library`` is the group ``org.scala-lang``."""
    told = next((manifest[header] for header in GROUPS if manifest.get(header)), "").partition(";")[0]
    plain = re.sub(r"_\d+(\.\d+)*$", "", name)
    return told.removesuffix(f".{name}").removesuffix(f".{plain}")
