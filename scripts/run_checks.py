"""``make check``: everything about the code that needs no test run. All run; the verdict comes last."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import bootstrap

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


@dataclass(frozen=True)
class Check:
    """One command; it passes with exit code 0."""

    name: str
    command: Sequence[str]
    remedy: str


def tool(name: str) -> str:
    """A program of the virtual environment."""
    return str(Path(PYTHON).parent / name)


def checks() -> list[Check]:
    """What is checked, in order: the quick ones first."""
    lint = tool("ruff")
    return [
        Check("features", [PYTHON, "scripts/features.py"], "correct docs/features.md"),
        Check("licences", [PYTHON, "scripts/licences.py"], "take another package, or say why there"),
        Check(
            "prose",
            [PYTHON, "-m", "sparkstate_tools.prose"],
            "write the sentence anew, see docs/STYLE.md, words",
        ),
        Check("ruff", [lint, "check", "--quiet", "."], "make format"),
        Check("format", [lint, "format", "--check", "--quiet", "."], "make format"),
        Check(
            "layers", [tool("lint-imports"), "--no-cache", "--no-logo"], "see docs/ARCHITECTURE.md, layers"
        ),
        Check("crd", [PYTHON, "-m", "sparkstate_operator.crdgen", "--check"], "make reference"),
        Check("reference", [PYTHON, "scripts/reference.py"], "make reference"),
        Check("mypy", [tool("mypy")], "annotate"),
        *lock_check(),
    ]


def lock_check() -> list[Check]:
    """Whether ``uv.lock`` fits the pyproject files; it names PyPI, so another index cannot tell."""
    env = bootstrap.uv_environment(os.environ, bootstrap.pip_settings())
    uv = bootstrap.find_uv(bootstrap.cache_directory(os.environ) / "uv")
    if uv is None or bootstrap.uses_own_index(env):
        print("lock: left out, packages come from an index of your own", flush=True)
        return []
    return [Check("lock", [str(uv), "lock", "--check", "--quiet", "--python", PYTHON], "uv lock")]


def main() -> int:
    """Runs all checks; 0 when all passed."""
    env = bootstrap.uv_environment(os.environ, bootstrap.pip_settings())
    failed = []
    started = time.monotonic()
    for check in checks():
        print(f"== {check.name}", flush=True)
        if subprocess.run(check.command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, check=False).returncode:
            failed.append(check)
    for check in failed:
        print(f"failed: {check.name}  ({check.remedy})")
    print(f"{'FAIL' if failed else 'PASS'}  (checks, {time.monotonic() - started:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
