"""Generates ``crds/`` from the models, with the chart's and the engine's copies, the operator's rights, and the chart's
schema of job defaults: ``python -m sparkstate_operator.crdgen [--check]``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from sparkstate_operator import rbac
from sparkstate_operator.model import helm, resources
from sparkstate_operator.model.crd import build_crd, build_schema
from sparkstate_operator.model.resources import Resource

HEADER = "# Generated from the models by `python -m sparkstate_operator.crdgen`. Do not edit.\n"
RIGHTS_HEADER = (
    HEADER.replace("the models", "sparkstate_operator.rbac")
    + """# jobs, bind: grant them in every watched namespace. bind names the role of --driver-role, which needs the
# rights `driver`. If that is a Role in each watched namespace instead of a ClusterRole, write resources [roles].
# lease, key: grant them in the operator's own namespace.
# key: not needed with operatorKey.existingSecret. It names the Secret of --key-secret, <full name>-key.
# release: for an uninstall, where jobs is granted, and in each namespace of uninstall.namespaces. The Job of the
# uninstall runs as the ServiceAccount <full name>-release, and needs lease too. With serviceAccount.create: false, it
# runs as serviceAccount.name, whose rights jobs contain the rights release.
"""
)
CHART = "charts/sparkstate-operator"
PLACES: dict[str, tuple[str, ...]] = {
    resources.JOBS.plural: ("crds", f"{CHART}/files/crds", "engine/src/sparkstate/manifest"),
    resources.SNAPSHOTS.plural: ("crds", f"{CHART}/files/crds"),
}
RULES = f"{CHART}/files/rules.yaml"
VALUES_SCHEMA = f"{CHART}/values.schema.json"
SIZE_LIMIT = 256 * 1024
"""Larger objects cannot be written by a client-side ``kubectl apply`` (limit of all annotations together)."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def render(resource: Resource) -> str:
    """The CRD as YAML text, the same bytes for the same models."""
    text = HEADER + yaml.dump(
        build_crd(resource), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True
    )
    size = len(text.encode())
    if size >= SIZE_LIMIT:
        raise ValueError(f"the CRD {resource.plural} has {size} bytes; it must stay below {SIZE_LIMIT}")
    return text


def values_schema(written: str) -> str:
    """The chart's values schema with its part ``defaults`` made anew; everything else in it is kept."""
    schema = json.loads(written)
    spec = build_schema(resources.JOBS)["properties"]["spec"]
    made = {
        **helm.values_schema(spec),
        "description": "Cluster-wide defaults of jobs, shaped as a job's spec.",
    }
    schema["properties"]["defaults"] = made
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def targets(root: Path) -> dict[str, str]:
    """Every generated file below ``root`` with its text."""
    made = {
        f"{folder}/{resource.plural}.yaml": text
        for resource in resources.ALL
        for text in (render(resource),)
        for folder in PLACES[resource.plural]
    }
    schema = values_schema((root / VALUES_SCHEMA).read_text("utf-8"))
    return {**made, VALUES_SCHEMA: schema, RULES: rights()}


def rights() -> str:
    """The operator's rights as the chart's templates read them."""
    found = {
        "jobs": rbac.rules(),
        "bind": rbac.bind_rules(),
        "driver": rbac.driver_rules(),
        "lease": rbac.lease_rules(),
        "key": rbac.key_rules(),
        "release": rbac.release_rules(),
    }
    return RIGHTS_HEADER + yaml.dump(found, Dumper=_Dumper, sort_keys=False)


def stale(root: Path) -> list[str]:
    """The files below ``root`` that differ from what the models say."""
    return [
        name
        for name, text in targets(root).items()
        if not (root / name).is_file() or (root / name).read_text("utf-8") != text
    ]


def find_root(start: Path) -> Path:
    """The checkout that ``start`` lies in: the nearest folder with ``crds`` and ``engine``."""
    for folder in (start, *start.parents):
        if (folder / "crds").is_dir() and (folder / "engine").is_dir():
            return folder
    raise FileNotFoundError(
        f"{start} is not in a checkout (no folder above it has crds/ and engine/); name one with --root"
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with ``--check`` only say which are stale (exit code 1)."""
    parser = argparse.ArgumentParser(prog="python -m sparkstate_operator.crdgen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    parser.add_argument("--root", type=Path, help="checkout to write to (default: found from here)")
    options = parser.parse_args(arguments)
    root = options.root or find_root(Path(__file__).resolve())
    outdated = stale(root)
    if options.check:
        for name in outdated:
            print(f"{name} is stale; run: python -m sparkstate_operator.crdgen", file=sys.stderr)
        return 1 if outdated else 0
    made = targets(root)
    for name in outdated:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(made[name], "utf-8")
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
