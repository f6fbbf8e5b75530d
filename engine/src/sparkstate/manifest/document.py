"""A manifest that has passed the schema and the rules."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkstate import errors
from sparkstate.manifest import overrides as overriding
from sparkstate.manifest import schema, source
from sparkstate.manifest.problems import raise_if_any
from sparkstate_spec import answers, configuration, rules
from sparkstate_spec.problems import Problem

API_VERSION = "sparkstate.io/v1alpha1"
KIND = "StatefulSparkJob"


@dataclass(frozen=True)
class Manifest:
    """One job as the user wrote it, valid by itself. ``spec`` holds only what was given, nothing is filled in."""

    name: str
    namespace: str
    spec: Mapping[str, Any]
    source: str
    """For messages: the file's name, or ``manifest``."""
    base_dir: Path | None
    """The folder that relative paths begin at: that of the file; None for text."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    overridden: frozenset[str] = frozenset()
    """Paths that ``--set`` gave."""


def load(manifest: Path | str, overrides: Sequence[str] = ()) -> Manifest:
    """Read and judge a manifest: a ``Path`` is a file, a ``str`` is YAML text.

    ``overrides`` are ``--set`` strings such as ``spec.slots=3``. Raises ``SpecInvalid`` that lists every
    finding by its path, or ``NotInThisVersion`` when the only findings are fields of later versions.
    """
    document, overridden, name, base_dir = _read(manifest, overrides)
    raise_if_any(judge(document), name)
    metadata = document["metadata"]
    return Manifest(
        name=metadata["name"],
        namespace=metadata.get("namespace", "default"),
        spec=document["spec"],
        source=name,
        base_dir=base_dir,
        annotations=dict(metadata.get("annotations") or {}),
        overridden=frozenset(overridden),
    )


def flink_answers(manifest: Path | str, overrides: Sequence[str] = ()) -> list[answers.Answer]:
    """The answer to each of Flink's keys, even when :func:`load` refuses some of them. Raises ``SpecInvalid`` for text
    that is not a manifest; nothing is answered where types are wrong."""
    document, _, _, _ = _read(manifest, overrides)
    spec = document.get("spec")
    if not isinstance(spec, dict) or schema.check(spec, schema.spec(), "spec"):
        return []
    return [] if configuration.problems(spec) else answers.of(spec)


def _read(
    manifest: Path | str, overrides: Sequence[str]
) -> tuple[dict[str, Any], list[str], str, Path | None]:
    """The document with the overrides, their paths, its name for messages, and its folder. Not judged yet."""
    text, name, base_dir = source.read(manifest)
    try:
        document = source.parse(text)
    except errors.SpecInvalid as error:
        raise errors.SpecInvalid(f"{name}: {error}") from error.__cause__
    raise_if_any(_wrong_kind(document), name)
    document, overridden = overriding.apply(copy.deepcopy(document), overrides, base_dir)
    return document, overridden, name, base_dir


def judge(document: Mapping[str, Any]) -> list[Problem]:
    """All findings about a document; rules are asked only where the types are right, as the API server does."""
    found = [
        *_metadata(document),
        *schema.check({k: v for k, v in document.items() if k != "metadata"}, schema.root(), ""),
    ]
    return found or rules.check(schema.with_defaults(document))


def _wrong_kind(document: Mapping[str, Any]) -> list[Problem]:
    found = []
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = document.get(name)
        if value is None:
            found.append(Problem(name, f"is missing; it must be {wanted}"))
        elif value != wanted:
            found.append(Problem(name, f"must be {wanted}", f"it is {value!r}"))
    return found


def _metadata(document: Mapping[str, Any]) -> list[Problem]:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return [Problem("metadata.name", "is missing; it names the job")]
    found = [
        Problem(f"metadata.{field}", "must be text; write it in quotes", f"it is {metadata[field]!r}")
        for field in ("name", "namespace")
        if field in metadata and not isinstance(metadata[field], str)
    ]
    annotations = metadata.get("annotations")
    if annotations is not None and not isinstance(annotations, dict):
        found.append(
            Problem(
                "metadata.annotations", "must be a mapping of names and texts", f"it is {annotations!r:.80}"
            )
        )
    return found
