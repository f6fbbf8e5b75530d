"""Several runs of ``make bench-peers`` in one file. All loads in one run take hours, so loads can be added one by one.

The engines of a load are always of one run: a run that measures a load again replaces all of its results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Run = Mapping[str, Any]
"""The command, commit, day and machine of a run, and its ``results``."""


def read(target: Path) -> list[Run]:
    """The runs of a file, the oldest first; none if there is no file."""
    try:
        document = json.loads(target.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    runs: list[Run] = document["runs"]
    return runs


def with_run(runs: Sequence[Run], run: Run) -> list[Run]:
    """The runs and one more. Earlier results of its loads are left out, and so are runs that have no others."""
    measured = {result["load"] for result in run["results"]}
    earlier = [
        {**each, "results": [result for result in each["results"] if result["load"] not in measured]}
        for each in runs
    ]
    return [each for each in (*earlier, run) if each["results"]]


def write(target: Path, runs: Sequence[Run]) -> None:
    """Replace the file."""
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"runs": list(runs)}, indent=2) + "\n", encoding="utf-8")
