"""Input for ``jobs/totals.py`` and what must come out of it, computed without anything of ours."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[str, int, int, int]


def make_input(
    folder: Path,
    files: int,
    rows: int = 200,
    keys: int = 50,
    seed: int = 7,
    first: int = 0,
    prefix: str = "key",
) -> list[Row]:
    """Write ``files`` files of ``rows`` rows; event time grows by 100 ms a file, disordered by less than 500 ms.

    Files that one epoch reads together must not share keys (``prefix``), because rows of an epoch have no order.
    """
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    everything: list[Row] = []
    for number in range(first, first + files):
        made = [
            (
                f"{prefix}-{rng.randrange(keys)}",
                number * rows + i,
                rng.randrange(10),
                number * 100 + rng.randrange(400),
            )
            for i in range(rows)
        ]
        everything += made
        write(folder / f"{number:05d}.parquet", made, number)
    return everything


def write(path: Path, rows: list[Row], number: int) -> None:
    """One whole file at once, as a file source wants it; its order is that of modification times, so they differ."""
    table = pa.table(
        {
            "k": pa.array([r[0] for r in rows], pa.string()),
            **{n: pa.array([r[i] for r in rows], pa.int64()) for i, n in ((1, "id"), (2, "v"), (3, "at"))},
        }
    )
    temporary = path.with_name(f".{path.name}")
    pq.write_table(table, temporary)
    os.utime(temporary, (changed_s(number), changed_s(number)))
    temporary.rename(path)


def changed_s(number: int) -> int:
    """When the file of that number was last changed, in seconds of Unix time: they lie a second apart."""
    return 1_700_000_000 + number


def read(folder: Path) -> list[dict[str, Any]]:
    """Every row of every published file."""
    result = []
    for path in sorted(folder.glob("part-*.parquet")):
        result += pq.read_table(path).to_pylist()
    return result


def expected_totals(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    """(key, id, v, running total) in order of id."""
    totals: dict[str, int] = defaultdict(int)
    result: Counter[tuple[Any, ...]] = Counter()
    for key, number, value, _ in sorted(rows, key=lambda row: row[1]):
        totals[key] += value
        result[(key, number, value, totals[key])] += 1
    return result


def expected_groups(rows: list[Row]) -> Counter[tuple[int, int]]:
    """(v, 1 … number of rows with it)."""
    counts = Counter(row[2] for row in rows)
    return Counter((v, i + 1) for v, count in counts.items() for i in range(count))


def check_counted(output: Path, rows: list[Row]) -> None:
    """The slots of ``jobs/counted.py`` have counted every row once in variables of their own."""
    told = read(output / "counted")
    assert sum(each["rows"] for each in told) == len(rows), told
    assert sum(each["total"] for each in told) == sum(row[2] for row in rows), told
    assert all(each["begun"] == 1 for each in told), "a slot lacks the broadcast state of the first life"


def check(output: Path, rows: list[Row]) -> None:
    """The published files hold each record exactly once."""
    got = Counter(tuple(r.values()) for r in read(output / "totals"))
    wanted = expected_totals(rows)
    assert got == wanted, (
        f"missing {list((wanted - got).items())[:3]}, too many {list((got - wanted).items())[:3]}"
    )
    groups = Counter(tuple(r.values()) for r in read(output / "groups"))
    wanted_groups = expected_groups(rows)
    assert groups == wanted_groups, (
        f"groups: missing {list((wanted_groups - groups).items())[:3]}, "
        f"too many {list((groups - wanted_groups).items())[:3]}"
    )
