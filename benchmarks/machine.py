"""Where and how a benchmark ran: what a reader needs to judge its figures, or to run it again."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def description(arguments: Sequence[str], target: str = "bench") -> dict[str, Any]:
    """The command of ``make``, the commit, the day, and the machine. ``target``: of the Makefile.

    A long run asks at its start, so that the commit is that of the code which it loads.
    """
    given = shlex.join(arguments)
    quoted = f"make {target} ARGS={shlex.quote(given)}" if given else f"make {target}"
    return {
        "command": quoted,
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores of {_processor()}, {_memory_gib()} GiB",
        "versions": f"Python {platform.python_version()}, Spark {importlib.metadata.version('pyspark')}",
    }


def write(
    target: Path, results: Sequence[Mapping[str, Any]], described: Mapping[str, Any], **told: Any
) -> None:
    """Write a JSON document of the results below their :func:`description` and what else is ``told``."""
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({**described, **told, "results": results}, indent=2) + "\n")


def _commit() -> str:
    """Of the checkout; with ``+`` if files differ from it, other than the results of runs."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "-uno", "--", ":/", ":(exclude,top)benchmarks/results")
    return git("rev-parse", "--short=9", "HEAD") + ("+" if changed else "")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30))
