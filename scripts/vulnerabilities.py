"""``make vulnerabilities``: known vulnerabilities of the locked packages, and of the images whose SBOM is there.

It asks nobody: the database is a copy of OSV's (https://osv.dev), named by ``--database`` or ``SPARKSTATE_OSV``: a
folder with ``all.zip`` files or JSON records anywhere below, or one such zip. OSV has one for each ecosystem;
``PyPI``, ``Maven`` and ``Debian:13`` are what we consist of.

Exit codes: 0 nothing known of any package that was looked up, 1 something is known, 2 the database or an SBOM cannot be
read, 3 it cannot say: there is no database, or it holds nothing of an ecosystem that packages are of.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packageurl import PackageURL
from univers.versions import DebianVersion, InvalidVersion, MavenVersion, PypiVersion, Version

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "uv.lock"
VARIABLE = "SPARKSTATE_OSV"
NONE_KNOWN, KNOWN, UNREADABLE, CANNOT_SAY = 0, 1, 2, 3
VERSIONS: Mapping[str, type[Version]] = {
    "PyPI": PypiVersion,
    "Maven": MavenVersion,
    "Debian": DebianVersion,
}


@dataclass(frozen=True, order=True)
class Package:
    """One package that may be vulnerable, as OSV names it."""

    ecosystem: str
    """``PyPI``, ``Maven``, ``Debian:13``."""
    name: str
    version: str
    where: str = field(compare=False)
    """What it is part of."""


@dataclass
class Ecosystem:
    """What the database holds of one."""

    records: int = 0
    newest: str = ""
    """When a record was changed last."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Look all packages up; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sbom", nargs="*", type=Path, help="default: those under build/images")
    parser.add_argument(
        "--database", type=Path, default=os.environ.get(VARIABLE), help="a copy of OSV's records"
    )
    options = parser.parse_args(arguments)
    if options.database is None:
        return _verdict(CANNOT_SAY, f"no database: name a copy of OSV's by --database or {VARIABLE}")
    try:
        packages, unknown = _packages(options.sbom or sorted((ROOT / "build" / "images").glob("*.spdx.json")))
        known, holds = look_up(packages, records(Path(options.database)))
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        return _verdict(UNREADABLE, f"{type(error).__name__}: {error}")
    for package, record in known:
        aliases = ", ".join(record.get("aliases") or ()) or "no other name"
        _say(
            f"{package.name} {package.version} ({package.where}): {record['id']} ({aliases}): {_told(record)}"
        )
    return _sum_up(packages, unknown, known, holds)


def _sum_up(
    packages: Sequence[Package],
    unknown: int,
    known: Sequence[tuple[Package, Mapping[str, Any]]],
    holds: Mapping[str, Ecosystem],
) -> int:
    empty = []
    for name in sorted({one.ecosystem for one in packages}):
        count = len({one for one in packages if one.ecosystem == name})
        if name not in holds:
            empty.append(name)
            _say(f"{name}: {count} packages, and the database holds nothing of it")
        else:
            told = holds[name]
            _say(
                f"{name}: {count} packages, {told.records} records, the newest of {told.newest or 'no date'}"
            )
    if unknown:
        _say(f"{unknown} jars do not say where they come from, and were not looked up")
    if known:
        return _verdict(KNOWN, f"{len(known)} known")
    if empty:
        return _verdict(CANNOT_SAY, f"nothing is known, but the database is silent about {', '.join(empty)}")
    return _verdict(NONE_KNOWN, f"nothing is known of {len(set(packages))} packages")


# --- what we consist of ----------------------------------------------------------------------------------------


def _packages(documents: Sequence[Path]) -> tuple[list[Package], int]:
    found, unknown = list(locked(LOCK)), 0
    for path in documents:
        document = json.loads(path.read_text())
        for url in _urls(document):
            package = of_url(PackageURL.from_string(url), str(document["name"]))
            unknown += package is None
            found += [package] if package else []
    return found, unknown


def locked(lock: Path) -> Iterator[Package]:
    """The packages of ``uv.lock`` that come from an index."""
    for one in tomllib.loads(lock.read_text())["package"]:
        if "registry" in one["source"]:
            yield Package("PyPI", one["name"], one["version"], lock.name)


def _urls(document: Mapping[str, Any]) -> Iterator[str]:
    for package in document["packages"]:
        for reference in package.get("externalRefs", ()):
            if reference["referenceType"] == "purl":
                yield reference["referenceLocator"]


def of_url(url: PackageURL, where: str) -> Package | None:
    """A component of an SBOM as OSV names it: Debian's by their source package. None for one of unknown origin."""
    version = str(url.version)
    if url.type == "pypi":
        return Package("PyPI", url.name, version, where)
    if url.type == "maven":
        return Package("Maven", f"{url.namespace}:{url.name}", version, where)
    if url.type == "deb":
        qualifiers = dict(url.qualifiers)
        release = qualifiers.get("distro", "").removeprefix("debian-")
        name, _, other = qualifiers.get("upstream", url.name).partition("@")
        return Package(f"Debian:{release}", name, other or version, where)
    return None


# --- what is known ---------------------------------------------------------------------------------------------


def records(database: Path) -> Iterator[Mapping[str, Any]]:
    """Every record of the database. Raises ``FileNotFoundError`` where there is none."""
    if database.is_file():
        yield from _zipped(database)
        return
    archives, files = sorted(database.rglob("*.zip")), sorted(database.rglob("*.json"))
    if not archives and not files:
        raise FileNotFoundError(f"{database} holds neither all.zip nor JSON records")
    for archive in archives:
        yield from _zipped(archive)
    for file in files:
        yield json.loads(file.read_bytes())


def _zipped(archive: Path) -> Iterator[Mapping[str, Any]]:
    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            if name.endswith(".json"):
                yield json.loads(opened.read(name))


def look_up(
    packages: Iterable[Package], database: Iterable[Mapping[str, Any]]
) -> tuple[list[tuple[Package, Mapping[str, Any]]], dict[str, Ecosystem]]:
    """Which packages a record is about, and what the database holds of each ecosystem."""
    wanted: dict[tuple[str, str], set[Package]] = defaultdict(set)
    for package in packages:
        wanted[package.ecosystem, plain(package.name)].add(package)
    found: dict[tuple[Package, str], Mapping[str, Any]] = {}
    holds: dict[str, Ecosystem] = defaultdict(Ecosystem)
    for record in database:
        for affected in record.get("affected", ()):
            about = affected.get("package") or {}
            ecosystem = str(about.get("ecosystem", ""))
            holds[ecosystem].records += 1
            holds[ecosystem].newest = max(holds[ecosystem].newest, str(record.get("modified", "")))
            if record.get("withdrawn"):
                continue
            for package in wanted.get((ecosystem, plain(str(about.get("name", "")))), ()):
                if concerns(affected, package):
                    found[package, record["id"]] = record
    return [(package, found[package, id_]) for package, id_ in sorted(found)], dict(holds)


def plain(name: str) -> str:
    """Names of PyPI are the same in several spellings; those of others have no such characters or keep them."""
    return name if ":" in name else re.sub(r"[-_.]+", "-", name).lower()


def concerns(affected: Mapping[str, Any], package: Package) -> bool:
    """Whether the version is one that an entry names: in its list, or within one of its ranges (OSV's evaluation)."""
    if package.version in affected.get("versions", ()):
        return True
    kind = VERSIONS[package.ecosystem.partition(":")[0]]
    ranges = (one for one in affected.get("ranges", ()) if one.get("type") in ("ECOSYSTEM", "SEMVER"))
    return any(_within(one.get("events", ()), package.version, kind) for one in ranges)


def _within(events: Sequence[Mapping[str, str]], version: str, kind: type[Version]) -> bool:
    """A version that cannot be compared counts as one that is meant: a false alarm is the smaller harm."""
    try:
        mine = kind(version)
        ordered = sorted(
            ((kind(value), what) for event in events for what, value in event.items() if value != "0"),
            key=lambda one: one[0],
        )
    except InvalidVersion:
        return True
    inside = any(event.get("introduced") == "0" for event in events)
    for bound, what in ordered:
        if what == "introduced" and mine >= bound:
            inside = True
        elif (what == "fixed" and mine >= bound) or (what == "last_affected" and mine > bound):
            inside = False
    return inside


def _told(record: Mapping[str, Any]) -> str:
    return str(record.get("summary") or record.get("details") or "no word")[:200].replace("\n", " ")


def _say(text: str) -> None:
    print(text, flush=True)


def _verdict(code: int, text: str) -> int:
    words = {NONE_KNOWN: "NONE KNOWN", KNOWN: "KNOWN", UNREADABLE: "UNREADABLE", CANNOT_SAY: "CANNOT SAY"}
    _say(f"vulnerabilities: {words[code]}: {text}")
    return code


if __name__ == "__main__":
    sys.exit(main())
