"""Writes the input of the large-state job: Parquet files in the order in which the job reads them, and plan.json."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkstate_tools.large_state.plan import Plan


def write(plan: Plan, folder: Path) -> int:
    """All files; their number. One is in memory at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    plan.save(folder)
    number = -1
    for number, (keys, values) in enumerate(plan.records()):
        path = folder / f"{number:05d}.parquet"
        table = pa.table({"k": keys.astype(np.int64), "v": values.astype(np.int64)})
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads files in the order of their times
    return number + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--state-mib", type=int, default=2560, help="size of the state (default 2560)")
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--rows-per-file", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plan = Plan(
        keys=options.state_mib * (1 << 20) // options.value_bytes,
        value_bytes=options.value_bytes,
        passes=options.passes,
        rows_per_file=options.rows_per_file,
        seed=options.seed,
    )
    print(f"{write(plan, options.folder)} files, {plan.keys} keys")


if __name__ == "__main__":
    main()
