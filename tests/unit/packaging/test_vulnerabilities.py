"""Known vulnerabilities, by a copy of OSV's database."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import vulnerabilities
from vulnerabilities import Package


def record(
    name: str, *events: dict[str, str], ecosystem: str = "PyPI", id_: str = "PYSEC-1", **more: Any
) -> dict[str, Any]:
    """One record as OSV publishes it."""
    package = {"ecosystem": ecosystem, "name": name}
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}]
    affected = {"package": package, "ranges": ranges, **more.pop("affected", {})}
    return {"id": id_, "modified": "2026-11-01T00:00:00Z", "summary": "bad", "affected": [affected], **more}


def database(folder: Path, *records: dict[str, Any]) -> Path:
    """As OSV's buckets have it: a zip for each ecosystem."""
    for one in records:
        ecosystem = one["affected"][0]["package"]["ecosystem"]
        place = folder / ecosystem / "all.zip"
        place.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(place, "a") as archive:
            archive.writestr(f"{one['id']}.json", json.dumps(one))
    return folder


def hits(packages: list[Package], *records: dict[str, Any]) -> list[tuple[str, str]]:
    found, _ = vulnerabilities.look_up(packages, records)
    return [(package.version, one["id"]) for package, one in found]


def pypi(version: str, name: str = "black-box") -> Package:
    return Package("PyPI", name, version, "uv.lock")


BEGIN, FIXED = {"introduced": "0"}, {"fixed": "2.10"}


@pytest.mark.parametrize(
    ("version", "events", "known"),
    [
        pytest.param("2.9", (BEGIN, FIXED), True, id="before the fix, by numbers and not by letters"),
        pytest.param("2.10", (BEGIN, FIXED), False, id="fixed"),
        pytest.param("2.10rc1", (BEGIN, FIXED), True, id="a candidate of the fix"),
        pytest.param("1.0", ({"introduced": "1.5"}, FIXED), False, id="before it came"),
        pytest.param("1.5", ({"introduced": "1.5"}, FIXED), True, id="where it came"),
        pytest.param("3.0", (BEGIN, {"last_affected": "3.0"}), True, id="the last one"),
        pytest.param("3.0.1", (BEGIN, {"last_affected": "3.0"}), False, id="after the last one"),
        pytest.param("9", (BEGIN,), True, id="never fixed"),
        pytest.param("3.5", (BEGIN, FIXED, {"introduced": "3.0"}, {"fixed": "4.0"}), True, id="back again"),
        pytest.param("not a version", (BEGIN, FIXED), True, id="what cannot be compared is told"),
    ],
)
def test_a_version_is_known_by_the_events_of_a_range(
    version: str, events: tuple[dict[str, str], ...], known: bool
) -> None:
    assert (hits([pypi(version)], record("Black_Box", *events)) != []) == known


def test_versions_are_compared_as_their_ecosystem_does() -> None:
    debian = Package("Debian:13", "openssl", "3.5.1-1~deb13u1", "job")
    maven = Package("Maven", "org.a:big", "1.0-beta", "job")
    fixed = (
        record("openssl", BEGIN, {"fixed": "3.5.1-1"}, ecosystem="Debian:13", id_="DSA-1"),
        record("org.a:big", BEGIN, {"fixed": "1.0"}, ecosystem="Maven", id_="GHSA-1"),
        record("openssl", BEGIN, ecosystem="Debian:12", id_="DSA-2"),
    )
    assert {found for _, found in hits([debian, maven], *fixed)} == {"DSA-1", "GHSA-1"}


def test_a_list_of_versions_counts_and_a_withdrawn_record_does_not() -> None:
    listed = record("black-box", {"introduced": "7"}, affected={"versions": ["1.0"]})
    assert hits([pypi("1.0")], listed) == [("1.0", "PYSEC-1")]
    assert hits([pypi("1.0")], {**listed, "withdrawn": "2026-01-01T00:00:00Z"}) == []


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock with one package, and no images."""
    path = tmp_path / "uv.lock"
    path.write_text('[[package]]\nname = "black-box"\nversion = "2.9"\nsource = {registry = "x"}\n')
    monkeypatch.setattr(vulnerabilities, "LOCK", path)
    monkeypatch.setattr(vulnerabilities, "ROOT", tmp_path)
    monkeypatch.delenv(vulnerabilities.VARIABLE, raising=False)
    return path


def document(folder: Path, *purls: str) -> Path:
    path = folder / "job.spdx.json"
    references = [{"referenceType": "purl", "referenceLocator": purl} for purl in purls]
    path.write_text(json.dumps({"name": "job:1", "packages": [{"externalRefs": references}]}))
    return path


def test_each_verdict_has_an_exit_code_of_its_own(
    lock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vulnerabilities.main([]) == vulnerabilities.CANNOT_SAY
    assert "no database" in capsys.readouterr().out
    assert vulnerabilities.main(["--database", str(tmp_path / "nowhere")]) == vulnerabilities.UNREADABLE
    (tmp_path / "all.zip").write_bytes(b"no zip")
    assert vulnerabilities.main(["--database", str(tmp_path / "all.zip")]) == vulnerabilities.UNREADABLE
    (tmp_path / "all.zip").unlink()

    other = database(tmp_path / "other", record("x", BEGIN, ecosystem="Maven"))
    assert vulnerabilities.main(["--database", str(other)]) == vulnerabilities.CANNOT_SAY
    assert "silent about PyPI" in capsys.readouterr().out

    calm = database(tmp_path / "calm", record("black-box", BEGIN, {"fixed": "1"}))
    assert vulnerabilities.main(["--database", str(calm)]) == vulnerabilities.NONE_KNOWN
    assert "PyPI: 1 packages, 1 records, the newest of 2026-11-01" in capsys.readouterr().out

    bad = database(tmp_path / "bad", record("black-box", BEGIN, FIXED, aliases=["CVE-2026-1"]))
    assert vulnerabilities.main(["--database", str(bad)]) == vulnerabilities.KNOWN
    assert "black-box 2.9 (uv.lock): PYSEC-1 (CVE-2026-1): bad" in capsys.readouterr().out


def test_the_packages_of_an_image_are_looked_up_by_its_sbom(
    lock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deb = "pkg:deb/debian/libssl3t64@3.5.1-1%2Bb1?arch=amd64&distro=debian-13&upstream=openssl%403.5.1-1"
    path = document(tmp_path, deb, "pkg:maven/org.a/big@1.0", "pkg:generic/oro@2.0.8")
    where = database(
        tmp_path / "osv",
        record("black-box", BEGIN, {"fixed": "1"}),
        record("openssl", BEGIN, {"fixed": "3.5.2-1"}, ecosystem="Debian:13", id_="DSA-1"),
        record("org.a:big", BEGIN, {"fixed": "0.9"}, ecosystem="Maven", id_="GHSA-1"),
    )
    assert vulnerabilities.main(["--database", str(where), str(path)]) == vulnerabilities.KNOWN
    out = capsys.readouterr().out
    assert "openssl 3.5.1-1 (job:1): DSA-1" in out
    assert "GHSA-1" not in out
    assert "1 jars do not say where they come from" in out


def test_the_lock_of_this_repository_is_read() -> None:
    names = {one.name for one in vulnerabilities.locked(vulnerabilities.LOCK)}
    assert {"pyspark", "kopf", "boto3", "rocksdict"} <= names
    assert "sparkstate" not in names
