"""The large-state job of ``benchmarks/large_state`` in a cluster with nodes: as much state as a test wants.

Its output is compared with its own arithmetic, which never runs the job's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml
from support.nodes.node_job import MOUNT, NodeJob

from sparkstate_tools.large_state import check, generate
from sparkstate_tools.large_state import plan as plans

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "large_state"
VALUE_BYTES = 1000


@dataclass(frozen=True)
class Prepared:
    """An input and what it was made of."""

    plan: plans.Plan
    files: Sequence[Path]

    @property
    def files_of_a_pass(self) -> int:
        """How many of the first files bring every key once: then the state has its size."""
        return -(-self.plan.keys // self.plan.rows_per_file)

    @property
    def rows(self) -> int:
        """Records of all files, and so of the whole output."""
        return sum(pq.ParquetFile(path).metadata.num_rows for path in self.files)


def prepared(folder: Path, state_mib: int, *, passes: int, rows_per_file: int) -> Prepared:
    """Writes the input for that much state; later passes visit every fourth key."""
    keys = state_mib * (1 << 20) // VALUE_BYTES
    plan = plans.Plan(keys=keys, value_bytes=VALUE_BYTES, passes=passes, rows_per_file=rows_per_file)
    generate.write(plan, folder)
    return Prepared(plan, sorted(folder.glob("*.parquet")))


@dataclass
class LargeJob(NodeJob):
    """One job of it; ``finish`` and ``check`` at its end."""

    data: Prepared

    @property
    def own_code(self) -> Path:
        """The benchmark's script."""
        return BENCHMARK / "job.py"

    @property
    def files(self) -> Sequence[Path]:
        """The generated records."""
        return self.data.files

    def example(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The benchmark's manifest, for input without an end."""
        document: dict[str, Any] = yaml.safe_load((BENCHMARK / "job.yaml").read_text())
        del document["spec"]["trigger"]
        return document, {
            "input": f"{MOUNT}/input",
            "output": f"file://{MOUNT}/output",
            "value_bytes": str(VALUE_BYTES),
        }

    @property
    def written_rows(self) -> int:
        """Records of the published files."""
        return sum(
            pq.ParquetFile(path).metadata.num_rows for path in (self.folder / "output").glob("part-*.parquet")
        )

    def until_rows(self, wanted: int, timeout_s: float) -> None:
        """Waits until so many records are out; a job that has failed is not waited for."""
        self.until(lambda _: self.written_rows >= wanted, f"{wanted} records are out", timeout_s, every_s=2.0)

    def finish(self, timeout_s: float = 600) -> None:
        """Releases what is left, and waits until all of it is out."""
        self.release_rest()
        self.until_rows(self.data.rows, timeout_s)

    def check(self) -> None:
        """Raises unless the output is what the plan says, record for record."""
        verdict = check.check(self.data.plan, self.folder / "output")
        assert verdict["equal"], verdict
