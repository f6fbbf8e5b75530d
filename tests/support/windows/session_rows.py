"""The sessions that a job over ``sparkstate_tools.drivers.window_rows`` has to put out, from the rows themselves."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

GAP_MS = 20
"""Of sessions. A value of ``n`` comes every 11 ms on average."""


def of(folder: Path) -> list[dict[str, Any]]:
    """The sessions of each ``n``, as the job puts them out."""
    rows = pq.read_table(folder, columns=["n", "v", "at"]).to_pylist()
    found: list[list[dict[str, Any]]] = []
    gap = datetime.timedelta(milliseconds=GAP_MS)
    for row in sorted(rows, key=lambda row: (row["n"] is None, row["n"], row["at"])):
        goes_on = bool(found) and found[-1][-1]["n"] == row["n"] and row["at"] - found[-1][-1]["at"] <= gap
        if goes_on:
            found[-1].append(row)
        else:
            found.append([row])
    return [_session(each, gap) for each in found]


def _session(rows: list[dict[str, Any]], gap: datetime.timedelta) -> dict[str, Any]:
    values = [row["v"] for row in rows if row["v"] is not None]
    return {
        "n": rows[0]["n"],
        "window_start": rows[0]["at"],
        "window_end": rows[-1]["at"] + gap,
        "rows": len(rows),
        "total": sum(values) if values else None,
        "first": rows[0]["v"],
        "last": values[-1] if values else None,
    }
