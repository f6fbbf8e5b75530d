"""``make sbom``: what each image consists of, as SPDX 2.3 in JSON, beside its archive under ``build/images/``.

``make images`` calls it for each archive that it writes. Every document is held against SPDX's own rules before it is
written, and ``--check`` reads those that exist and holds them against the JSON schema too. Exit codes: 0 fine, 1 a
document breaks the rules, 2 there is no archive.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import image_contents
import jsonschema
from license_expression import ExpressionError, get_spdx_licensing
from spdx_tools.spdx.jsonschema.document_converter import DocumentConverter
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Checksum,
    ChecksumAlgorithm,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "build" / "images"
TOOL = "sparkstate-sbom"
SCHEMA = "schemas/spdx/2.3-schema.json"
"""SPDX's JSON schema, in lib4sbom."""
MOST = 10
"""Problems of a document that are told."""
LICENCES = get_spdx_licensing()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("archive", nargs="*", type=Path, help="default: every archive under build/images")
    parser.add_argument(
        "--check", action="store_true", help="hold what exists against the rules and the schema"
    )
    options = parser.parse_args(arguments)
    archives = options.archive or sorted(IMAGES.glob("*.tar"))
    if not archives:
        _say(f"there is no archive under {IMAGES}: make images")
        return 2
    wrong = 0
    for archive in archives:
        if not options.check:
            write(archive)
        for problem in itertools.islice(problems(place(archive)), MOST):
            wrong = 1
            _say(problem)
    return wrong


def place(archive: Path) -> Path:
    """Where the document of an archive lies."""
    return archive.with_suffix(".spdx.json")


def write(archive: Path, now: datetime | None = None) -> Path:
    """Write the document of an image archive, and return its path. Raises ``ValueError`` for no image, or for a
    document that breaks SPDX's rules."""
    image = image_contents.read(archive)
    made = document(image, now or datetime.now(UTC))
    broken = [one.validation_message for one in validate_full_spdx_document(made)]
    if broken:
        raise ValueError(f"the SBOM of {archive.name} breaks SPDX's rules: {'; '.join(broken[:5])}")
    place(archive).write_text(json.dumps(as_json(made), indent=1))
    kinds = [one.purl.partition("/")[0].removeprefix("pkg:") for one in image.components]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    _say(f"{image.tag}: {counts}; {place(archive).name}")
    return place(archive)


def as_json(made: Document) -> dict[str, Any]:
    """The document in the words of the JSON schema: spdx-tools 0.8 spells the categories of references as SPDX 2.2
    did (``PACKAGE_MANAGER``)."""
    found: dict[str, Any] = DocumentConverter().convert(made)
    for package in found["packages"]:
        for reference in package.get("externalRefs", ()):
            reference["referenceCategory"] = reference["referenceCategory"].replace("_", "-")
    return found


def document(image: image_contents.Image, now: datetime) -> Document:
    """The image contains each of its components."""
    whole = Package(
        spdx_id="SPDXRef-image",
        name=image.tag,
        download_location=SpdxNoAssertion(),
        version=image.id,
        files_analyzed=False,
        checksums=[Checksum(ChecksumAlgorithm.SHA256, image.id)],
    )
    info = CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id="SPDXRef-DOCUMENT",
        name=image.tag,
        document_namespace=f"https://sparkstate.io/spdx/{image.id}",
        creators=[Actor(ActorType.TOOL, TOOL)],
        created=now.replace(microsecond=0, tzinfo=None),
    )
    packages = list(_packages(image))
    related = [Relationship(info.spdx_id, RelationshipType.DESCRIBES, whole.spdx_id)]
    related += [Relationship(whole.spdx_id, RelationshipType.CONTAINS, one.spdx_id) for one in packages]
    return Document(info, [whole, *packages], relationships=related)


def _packages(image: image_contents.Image) -> Iterator[Package]:
    for number, one in enumerate(image.components):
        purl = ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", one.purl)
        yield Package(
            spdx_id=f"SPDXRef-package-{number}",
            name=one.name,
            download_location=SpdxNoAssertion(),
            version=one.version,
            files_analyzed=False,
            checksums=[Checksum(ChecksumAlgorithm.SHA256, one.sha256)] if one.sha256 else [],
            external_references=[purl],
            source_info=f"read from /{one.path}",
            license_declared=_licence(one.licence),
        )


def _licence(told: str) -> object:
    """A licence that SPDX knows, or no word of one: what a package says in its own words is no expression."""
    try:
        found = LICENCES.parse(told, validate=True, strict=True)
    except ExpressionError:
        found = None
    return SpdxNoAssertion() if found is None else found


def problems(path: Path) -> Iterator[str]:
    """What is wrong with a document that exists."""
    if not path.exists():
        yield f"{path} is missing: make images"
        return
    schema = json.loads(resources.files("lib4sbom").joinpath(SCHEMA).read_text())
    for error in jsonschema.Draft7Validator(schema).iter_errors(json.loads(path.read_text())):
        yield f"{path.name}: {error.json_path}: {error.message[:200]}"
    for message in validate_full_spdx_document(parse_file(str(path))):
        yield f"{path.name}: {message.validation_message}"


def _say(text: str) -> None:
    print(f"[sbom] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
