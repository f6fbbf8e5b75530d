"""Example 02, the session job: its input, and what it wrote against the calculation by sorting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.examples import example

from sparkstate_tools.demo import job_process, oracle

EXAMPLE = example.EXAMPLES / "02-sessions"
GAP = timedelta(minutes=30)
clicks = example.load(EXAMPLE / "clicks.py")
expected = example.load(EXAMPLE / "expected.py")


def found(folder: Path, output: str, columns: Sequence[str]) -> Counter[oracle.Record]:
    """The records of an output's published files."""
    return oracle.written(oracle.committed_files(folder / "output" / output), columns)


def check(folder: Path, regular: Sequence[Any], late: Sequence[Any]) -> int:
    """Raises unless sessions, landing pages and late rows are exact; the number of sessions."""
    sessions = expected.sessions(regular, GAP)
    assert found(folder, "sessions", ("user", "started", "ended", "clicks", "landing")) == sessions
    assert found(folder, "landing-pages", ("landing", "day", "sessions", "clicks", "seconds")) == (
        expected.landing_pages(sessions, GAP)
    )
    assert found(folder, "late", ("user", "page", "at")) == Counter(
        (one.user, one.page, one.at) for one in late
    )
    return int(sessions.total())


def process(folder: Path, name: str, params: Mapping[str, str], **spec: Any) -> job_process.JobProcess:
    """The example's job with its output, its state and its process below ``folder``; ``spec`` is laid over its own."""
    changes = {
        "params": {"output": str(folder / "output"), **params},
        "checkpointing": {"storage": (folder / "state").as_uri(), "interval": "2s"},
        **spec,
    }
    manifest = job_process.write_manifest(EXAMPLE / "job.yaml", folder / "run.yaml", name, changes)
    return job_process.JobProcess(manifest, folder / "work", {})
