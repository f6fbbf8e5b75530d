"""What an image consists of, read from its archive, and written as SPDX."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import image_contents
import pytest
import sbom

DPKG = """\
Package: libssl3t64
Status: install ok installed
Architecture: amd64
Source: openssl (3.5.1-1)
Version: 3.5.1-1+b1
Description: a library
 of several lines

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
METADATA = (
    "Metadata-Version: 2.4\nName: Zope.Interface\nVersion: 7.2\n"
    "License-Expression: Apache-2.0\n\nName: not this\n"
)
ID = hashlib.sha256(b"config").hexdigest()


def jar(poms: Mapping[str, str] | None = None, manifest: str = "Manifest-Version: 1.0\r\n") -> bytes:
    """A jar with ``group:name`` → version as Maven writes it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", manifest)
        for at, version in (poms or {}).items():
            group, name = at.split(":")
            told = f"#Generated\r\ngroupId={group}\r\nartifactId={name}\r\nversion={version}\r\n"
            archive.writestr(f"META-INF/maven/{group}/{name}/pom.properties", told)
    return content.getvalue()


def archive(path: Path, *layers: Mapping[str, bytes]) -> Path:
    """An image archive with these layers, the lowest first."""
    files = {f"{n}.tar": tar(layer) for n, layer in enumerate(layers)}
    manifest = [{"Config": f"{ID}.json", "RepoTags": ["docker.io/sparkstate/job:1"], "Layers": list(files)}]
    path.write_bytes(tar({**files, f"{ID}.json": b"{}", "manifest.json": json.dumps(manifest).encode()}))
    return path


def tar(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as written:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            written.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def purls(path: Path) -> list[str]:
    return [one.purl for one in image_contents.read(path).components]


def test_debian_s_packages_are_those_installed_with_their_source(tmp_path: Path) -> None:
    one = archive(tmp_path / "a.tar", {"./var/lib/dpkg/status": DPKG.encode()})
    wanted = "pkg:deb/debian/libssl3t64@3.5.1-1%2Bb1?arch=amd64&distro=debian-13&upstream=openssl%403.5.1-1"
    assert purls(one) == [wanted]


def test_python_s_packages_are_those_with_metadata(tmp_path: Path) -> None:
    one = archive(tmp_path / "a.tar", {"opt/x/zope_interface-7.2.dist-info/METADATA": METADATA.encode()})
    assert purls(one) == ["pkg:pypi/zope-interface@7.2"]


def test_a_jar_is_named_by_maven_s_file_by_its_manifest_or_by_its_name_alone(tmp_path: Path) -> None:
    shaded = jar({"org.a:big": "1.0", "org.b:small": "2.0"})
    scala = jar(manifest="Bundle-SymbolicName: org.scala-lang.scala-library\r\n")
    one = archive(
        tmp_path / "a.tar",
        {
            "jars/big-1.0.jar": shaded,
            "jars/scala-library-2.13.18.jar": scala,
            "jars/oro-2.0.8.jar": jar(),
            "jars/broken-1.jar": b"no zip",
        },
    )
    assert purls(one) == [
        "pkg:generic/broken@1",
        "pkg:generic/oro@2.0.8",
        "pkg:maven/org.a/big@1.0",
        "pkg:maven/org.b/small@2.0",
        "pkg:maven/org.scala-lang/scala-library@2.13.18",
    ]
    digests = {one.name: one.sha256 for one in image_contents.read(one).components}
    assert digests["big"] == hashlib.sha256(shaded).hexdigest()
    assert digests["small"] == "", "the digest is the whole jar's"


def test_what_a_higher_layer_removes_or_replaces_is_not_there(tmp_path: Path) -> None:
    low = {
        "jars/a-1.jar": jar({"g:a": "1"}),
        "jars/b-1.jar": jar({"g:b": "1"}),
        "lib/c-1.dist-info/METADATA": b"Name: c\nVersion: 1\n",
        "lib/d-1.dist-info/METADATA": b"Name: d\nVersion: 1\n",
    }
    high = {
        "jars/.wh..wh..opq": b"",
        "jars/b-1.jar": jar({"g:b": "2"}),
        "lib/.wh.c-1.dist-info": b"",
    }
    assert purls(archive(tmp_path / "a.tar", low, high)) == ["pkg:maven/g/b@2", "pkg:pypi/d@1"]


def test_a_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"x": b"x"}))
    with pytest.raises(ValueError, match=r"a\.tar is no image archive"):
        image_contents.read(tmp_path / "a.tar")


def test_the_document_keeps_spdx_s_rules_and_its_schema(tmp_path: Path) -> None:
    one = archive(
        tmp_path / "job.tar",
        {
            "var/lib/dpkg/status": DPKG.encode(),
            "x/a-1.dist-info/METADATA": METADATA.encode(),
            "x/b-1.dist-info/METADATA": b"Name: b\nVersion: 1\nLicense-Expression: our own words\n",
            "jars/big-1.0.jar": jar({"org.a:big": "1.0"}),
        },
    )
    path = sbom.write(one)
    assert path == tmp_path / "job.spdx.json"
    assert list(sbom.problems(path)) == []
    document = json.loads(path.read_text())
    assert document["spdxVersion"] == "SPDX-2.3"
    assert document["documentNamespace"].endswith(ID)
    image, *packages = document["packages"]
    assert (image["name"], image["versionInfo"]) == ("sparkstate/job:1", ID)
    licences = {one["name"]: one["licenseDeclared"] for one in packages}
    assert licences["Zope.Interface"] == "Apache-2.0"
    assert licences["b"] == "NOASSERTION"
    contained = [one for one in document["relationships"] if one["relationshipType"] == "CONTAINS"]
    assert len(contained) == len(packages) == 4

    document["packages"][1]["externalRefs"][0]["referenceCategory"] = "PACKAGE_MANAGER"
    document["packages"][2]["downloadLocation"] = "somewhere"
    path.write_text(json.dumps(document))
    found = "\n".join(sbom.problems(path))
    assert "referenceCategory" in found
    assert "somewhere" in found


def test_without_an_archive_there_is_nothing_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sbom, "IMAGES", tmp_path)
    assert sbom.main([]) == 2
    assert "make images" in capsys.readouterr().err
    assert sbom.main(["--check", str(tmp_path / "job.tar")]) == 1
