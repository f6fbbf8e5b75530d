"""Writes ``crds/`` and the engine's packaged copy from the models: ``python -m sparkstate_operator.crdgen
[--check]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from sparkstate_operator.model.crd import build_crd

HEADER = "# Generated from the models by `python -m sparkstate_operator.crdgen`. Do not edit.\n"
TARGETS = ("crds/statefulsparkjobs.yaml", "engine/src/sparkstate/manifest/statefulsparkjobs.yaml")
SIZE_LIMIT = 256 * 1024
"""Larger objects cannot be written by a client-side ``kubectl apply`` (limit of all annotations together)."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def render() -> str:
    """The CRD as YAML text, the same bytes for the same models."""
    text = HEADER + yaml.dump(build_crd(), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    if len(text.encode()) >= SIZE_LIMIT:
        raise ValueError(f"the CRD has {len(text.encode())} bytes; it must stay below {SIZE_LIMIT}")
    return text


def stale(root: Path) -> list[str]:
    """The targets under ``root`` that differ from what the models say."""
    text = render()
    return [
        name for name in TARGETS if not (root / name).is_file() or (root / name).read_text("utf-8") != text
    ]


def find_root(start: Path) -> Path:
    """The checkout that ``start`` lies in: the nearest folder with ``crds`` and ``engine``."""
    for folder in (start, *start.parents):
        if (folder / "crds").is_dir() and (folder / "engine").is_dir():
            return folder
    raise FileNotFoundError(
        f"{start} lies in no checkout (no folder above it has crds/ and engine/); name it by --root"
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
    for name in outdated:
        (root / name).write_text(render(), "utf-8")
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
