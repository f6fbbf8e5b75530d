"""Windows in whole jobs: what they put out is what Spark SQL's windows say of the same rows, or what lists of rows
give, each window once, through kills of slots, and over a savepoint into another backend and number of slots."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from support.spark import spark_session

from sparkstate.control import documents
from sparkstate.phases import ProcessPhase
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark

Files = list[list[totals.Row]]
"""Rows by file: an epoch reads one."""
BEHIND = "behind"
"""How keys begin whose rows come late. In windows that do not wait for them they are incomplete."""
WINDOWS: Mapping[str, Callable[[Column], Column]] = {
    "tumbling": lambda at: F.window(at, "300 milliseconds"),
    "sliding": lambda at: F.window(at, "600 milliseconds", "200 milliseconds", "50 milliseconds"),
    "session": lambda at: F.session_window(at, "20 milliseconds"),
    "dynamic": lambda at: F.session_window(
        at, F.concat((F.col("v") * 3 + 2).cast("string"), F.lit(" milliseconds"))
    ),
}


def by_spark(rows: DataFrame, window: Column) -> Counter[tuple[Any, ...]]:
    """Key, start, end, sum and number of rows of each window."""
    sums = rows.groupBy("k", window.alias("w")).agg(F.sum("v").alias("total"), F.count("*").alias("n"))
    ends = [F.unix_millis(F.col(f"w.{end}")) for end in ("start", "end")]
    return Counter(tuple(row) for row in sums.select("k", *ends, "total", "n").collect())


def frame_of(rows: list[totals.Row]) -> DataFrame:
    session: Any = spark_session.get()
    frame: DataFrame = session.createDataFrame(rows, "k string, id bigint, v bigint, at bigint")
    return frame.withColumn("at", F.timestamp_millis("at"))


@pytest.mark.fault(
    broken="a slot is killed (SIGKILL)",
    when="in the middle of {moment} windows",
    expected="the epoch is processed again; each window is put out once, with all of its rows",
)
@pytest.mark.parametrize(
    ("moment", "backend"),
    [
        ("firing", "rocksdb"),
        pytest.param("merging", "hashmap", marks=pytest.mark.extra),
        *(
            pytest.param(moment, backend, marks=pytest.mark.extra)
            for moment, backend in (
                ("firing", "hashmap"),
                ("cleaning", "hashmap"),
                ("cleaning", "rocksdb"),
                ("merging", "rocksdb"),
            )
        ),
    ],
)
def test_windows_are_exact_when_a_slot_dies_in_the_middle_of_them(
    tmp_path: Path, moment: str, backend: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=10)
    died = tmp_path / "died"
    params = {"moment": moment, "died": str(died)}
    document = driving.manifest(tmp_path, "dying_windows.py", params=params, stateBackend={"type": backend})
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
        assert died.exists(), "no slot came so far"
        incarnations = {
            entry["incarnation"] for entry in driver.phases() if entry["process"].startswith("slot")
        }
        assert len(incarnations) == 2
    frame = frame_of(rows)
    for name in ("tumbling", "session"):
        found = Counter(tuple(row.values()) for row in totals.read(tmp_path / "out" / name))
        assert found == by_spark(frame, WINDOWS[name](F.col("at"))), name


# --- every kind of windows, through kills and a savepoint


def make_files(folder: Path) -> Files:
    """Eight files of rows. Those of some more keys are in the second file, and, late, in the sixth: some in windows
    that have not ended, some in windows that are put out again, some in none."""
    made = by_file(totals.make_input(folder, files=8))
    for number, times in ((1, (110, 150, 160, 250)), (5, (20, 50, 110, 120, 180, 250, 280))):
        made[number] += [
            (f"{BEHIND}-{key}", 100_000 + 1000 * number + 10 * key + place, 1, at)
            for key in range(5)
            for place, at in enumerate(times)
        ]
        totals.write(folder / f"{number:05d}.parquet", made[number], number)
    return made


def by_file(rows: list[totals.Row]) -> Files:
    return [rows[first : first + 200] for first in range(0, len(rows), 200)]


def rows_of_keys(files: Files) -> Mapping[str, list[int]]:
    """For each key the file of each of its rows, in order."""
    found = defaultdict(list)
    for number, rows in enumerate(files):
        for key, *_ in rows:
            found[key].append(number)
    return found


def put_out_again(files: Files) -> tuple[Counter[Any], Counter[Any]]:
    """What windows of 100 ms put out with 150 ms of allowed lateness, and the rows that are later than that."""
    values: dict[tuple[str, int], list[int]] = defaultdict(list)
    out, late, watermark = Counter[Any](), Counter[Any](), -math.inf
    for rows in [*files, None]:
        for row in rows or ():
            key, _, value, at = row
            window = key, at - at % 100
            if window[1] + 99 + 150 <= watermark:
                late[row] += 1
                continue
            values[window].append(value)
            if window[1] + 99 <= watermark:
                out[result(window, values[window])] += 1
        # Of a disorder of 500 ms, as in the job; at the end of the input all time is over.
        reached = max(watermark, max(row[3] for row in rows) - 501) if rows else math.inf
        for window, found in values.items():
            if watermark < window[1] + 99 <= reached:
                out[result(window, found)] += 1
        watermark = reached
    return out, late


def result(window: tuple[str, int], values: list[int]) -> tuple[Any, ...]:
    key, start = window
    return key, start, start + 100, sum(values), len(values)


def wanted(name: str, files: Files) -> Counter[Any]:
    """What the job's output of that name holds."""
    frame = frame_of([row for rows in files for row in rows if not row[0].startswith(BEHIND)])
    if name in WINDOWS:
        return by_spark(frame, WINDOWS[name](F.col("at")))
    if name == "reduced":
        window = F.window("at", "300 milliseconds")
        found = frame.groupBy("k", window).agg(F.max("id"), F.sum("v"), F.unix_millis(F.min("at")))
        return Counter(tuple(row) for row in found.drop("window").collect())
    if name == "again":
        return put_out_again(files)[0]
    if name == "epochs":
        values = defaultdict(list)
        for number, rows in enumerate(files):
            for key, _, value, _ in rows:
                values[number, key].append(value)
        return Counter((key, sum(each), len(each)) for (_, key), each in values.items())
    places = rows_of_keys(files)
    if name == "counted":
        return Counter(
            (key, n // 3, file)
            for key, its in places.items()
            for n, file in enumerate(its[: len(its) // 3 * 3])
        )
    assert name == "purged"
    return Counter(
        (key, file)
        for key, its in places.items()
        for n, file in enumerate(its[: len(its) // 4 * 4])
        if n % 4 >= 2
    )


def put_out(name: str, rows: list[tuple[Any, ...]], files: Files) -> Counter[Any]:
    """The same of what the job has put out."""
    if name == "epochs":  # which moment of wall time an epoch had is not known
        return Counter((key, total, number) for key, _, _, total, number in rows)
    if name in ("counted", "purged"):
        file_of = {(key, row): number for number, its in enumerate(files) for key, row, *_ in its}
        assert len({row[-1] for row in rows}) == len(rows), "a row was put out twice"
        return Counter((*row[:-1], file_of[row[0], row[-1]]) for row in rows)
    return Counter(row for row in rows if name == "again" or not row[0].startswith(BEHIND))


def read(folder: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in totals.read(folder)]


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("hashmap", "rocksdb", ("sliding", "dynamic", "reduced", "counted")),
        pytest.param(
            "rocksdb",
            "hashmap",
            ("tumbling", "session", "purged", "again", "epochs"),
            marks=pytest.mark.extra,
        ),
    ],
    ids=["hashmap, then rocksdb", "rocksdb, then hashmap"],
)
def test_windows_are_those_of_spark_sql_through_kills_and_a_savepoint(
    tmp_path: Path, first: str, second: str, names: tuple[str, ...]
) -> None:
    files = make_files(tmp_path / "in")
    document = driving.manifest(
        tmp_path,
        "windowed.py",
        params={"windows": ",".join(names)},
        stateBackend={"type": first},
        trigger={"processingTime": "100ms"},
    )
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driver.kill_in("slot-0", ProcessPhase.FINISH)
        driving.wait_for(
            lambda: all(totals.read(tmp_path / "out" / name) for name in names),
            driving.PATIENCE_S,
            "windows of each kind",
            driver.process,
        )
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="half-way", stop=True))
        driver.finish()
    savepoint = driver.end()["savepoint"]["location"]

    files += by_file(totals.make_input(tmp_path / "in", files=2, first=8, seed=8))
    copy = driving.manifest(
        tmp_path,
        "windowed.py",
        name="copy",
        slots=3,
        stateBackend={"type": second},
        restoreFrom={"uri": savepoint},
        params={"windows": ",".join(names), "output": str(tmp_path / "copy")},
    )
    with driving.Driver(tmp_path / "second", copy) as driver:
        driver.kill_in("slot-1", ProcessPhase.COMMIT)
        driver.finish()

    for name in names:
        before, after = read(tmp_path / "out" / name), read(tmp_path / "copy" / name)
        assert before and after, name
        assert put_out(name, before + after, files) == wanted(name, files), name
    if "again" in names:
        windows, late = put_out_again(files)
        assert len({window[:2] for window in windows}) < windows.total(), "no window is put out again"
        assert late.total() > 0
        assert Counter(read(tmp_path / "out" / "behind") + read(tmp_path / "copy" / "behind")) == late
