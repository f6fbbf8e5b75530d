"""Compares the large-state job's output with what plan.json says, file by file.

    python -m sparkstate_tools.large_state.check INPUT OUTPUT

Prints one JSON line. Exit code 1 if a row is wrong, missing, or there twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sparkstate_tools.large_state.plan import Plan, fingerprint

_BATCH_ROWS = 1 << 18


def check(plan: Plan, output: Path) -> dict[str, Any]:
    """The verdict, with the first wrong row."""
    rows = wrong = found = 0
    example: dict[str, int] | None = None
    for path in sorted(output.rglob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=["k", "count", "checksum"]):
                keys, counts, sums = (column.to_numpy().astype(np.uint64) for column in batch.columns)
                bad = plan.checksums(keys, counts) != sums
                if bad.any():
                    at = int(np.flatnonzero(bad)[0])
                    wrong += int(bad.sum())
                    example = example or {
                        "k": int(keys[at]),
                        "count": int(counts[at]),
                        "checksum": int(sums[at]),
                    }
                rows += len(keys)
                found = (found + fingerprint(keys, counts, sums)) % (1 << 64)
    expected_rows = expected = 0
    for keys, counts, sums in plan.expected():
        expected_rows += len(keys)
        expected = (expected + fingerprint(keys, counts, sums)) % (1 << 64)
    return {
        "equal": wrong == 0 and rows == expected_rows and found == expected,
        "rows": rows,
        "expected_rows": expected_rows,
        "wrong_rows": wrong,
        "first_wrong": example,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", type=Path, help="where plan.json lies")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    verdict = check(Plan.load(options.input), options.output)
    print(json.dumps(verdict))
    sys.exit(0 if verdict["equal"] else 1)


if __name__ == "__main__":
    main()
