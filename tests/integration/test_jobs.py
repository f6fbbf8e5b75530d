"""Whole jobs on Spark: keys of every type, timers without data, late rows, a sink of the user's."""

from __future__ import annotations

import datetime
import decimal
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkstate_tools.drivers import driving

pytestmark = pytest.mark.spark

KEYS = pa.schema(
    [
        ("s", pa.string()),
        ("f", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("b", pa.binary()),
        ("ok", pa.bool_()),
        ("label", pa.string()),
    ]
)


def write(folder: Path, number: int, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    folder.mkdir(exist_ok=True)
    temporary = folder / f".{number}"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)
    os.utime(temporary, (1_700_000_000 + number,) * 2)
    temporary.rename(folder / f"{number}.parquet")


def output(folder: Path) -> list[tuple[Any, ...]]:
    lines = [line for path in sorted(folder.glob("part-*")) for line in path.read_text().splitlines()]
    return [tuple(json.loads(line).values()) for line in lines]


def key_row(label: str, n: int, f: float | None) -> dict[str, Any]:
    odd = n % 2 == 1
    return {
        "s": None if n == 0 else f"ключ-{n}",
        "f": f,
        "d": None if n == 0 else decimal.Decimal(n) / 4,
        "t": datetime.datetime(2013, 1, 1, n, tzinfo=datetime.UTC),
        "day": datetime.date(2013, 1, 1 + n),
        "b": bytes([n, 0, 255]),
        "ok": odd,
        "label": label,
    }


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.extra)])
def test_keys_of_every_type_are_the_same_key_in_every_epoch_and_after_a_restore(
    tmp_path: Path, backend: str
) -> None:
    floats = [0.0, -0.0, float("nan"), 1.5, None]
    rows = [key_row(f"row-{n}", n, floats[n]) for n in range(5)]
    document = driving.manifest(
        tmp_path,
        "shapes.py",
        params={"case": "keys", "by": "s,f,d,t,day,b,ok"},
        stateBackend={"type": backend},
    )
    write(tmp_path / "in", 0, rows, KEYS)
    write(tmp_path / "in", 1, rows, KEYS)
    with driving.Driver(tmp_path, document) as first:
        first.finish()
    write(tmp_path / "in", 2, rows, KEYS)
    with driving.Driver(tmp_path, document, attempt=2) as second:
        second.finish()
    assert Counter(output(tmp_path / "out")) == Counter((f"row-{n}", i) for n in range(5) for i in (1, 2, 3))


@pytest.mark.extra
def test_both_zeros_and_every_nan_are_one_key_each(tmp_path: Path) -> None:
    rows = [
        key_row(label, 1, f)
        for label, f in (("zero", 0.0), ("zero", -0.0), ("nan", float("nan")), ("nan", -float("nan")))
    ]
    write(tmp_path / "in", 0, rows, KEYS)
    document = driving.manifest(tmp_path, "shapes.py", params={"case": "keys", "by": "f"})
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
    assert sorted(output(tmp_path / "out")) == [("nan", 1), ("nan", 2), ("zero", 1), ("zero", 2)]


def test_processing_time_timers_fire_when_no_data_arrives(tmp_path: Path) -> None:
    write(
        tmp_path / "in",
        0,
        [{"label": "a"}, {"label": "b"}, {"label": "a"}],
        pa.schema([("label", pa.string())]),
    )
    document = driving.manifest(
        tmp_path,
        "shapes.py",
        params={"case": "alarm", "backend": "rocksdb"},
        trigger={"processingTime": "100ms"},
        slots=1,
    )
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driving.wait_for(
            lambda: set(output(tmp_path / "out")) == {("a", 2), ("b", 1)},
            driving.PATIENCE_S,
            "the alarms",
            driver.process,
        )
        assert client.status().backend == "rocksdb", "what the code chose beats the manifest"

        def counted() -> dict[str, float | None]:
            return {metric.name: metric.count for metric in client.status().user_metrics}

        driving.wait_for(
            lambda: counted() == {"case.alarm.rows": 3, "case.alarm.alarms": 2},
            driving.PATIENCE_S,
            "the function's own metrics",
            driver.process,
        )
        label = 'sparkstate_user_counter{metric="case.alarm.rows",operator="alarm",slot="0"} 3.0'
        assert label in client.metrics().splitlines()
        client.cancel()
        driver.finish()
    assert Counter(output(tmp_path / "out")) == Counter({("a", 2): 1, ("b", 1): 1})


def write_rows_of_which_two_are_late(folder: Path) -> None:
    schema = pa.schema([("label", pa.string()), ("at", pa.timestamp("us", "UTC"))])

    def row(label: str, second: int) -> dict[str, Any]:
        return {"label": label, "at": datetime.datetime(2013, 1, 1, 0, 0, second, tzinfo=datetime.UTC)}

    write(folder, 0, [row("in time", 5), row("in time", 40)], schema)
    write(folder, 1, [row("in time", 30), row("late", 29), row("in time", 50)], schema)
    write(folder, 2, [row("late", 39), row("in time", 41)], schema)


@pytest.mark.extra
def test_rows_behind_the_watermark_of_the_epoch_before_go_to_the_late_output(tmp_path: Path) -> None:
    write_rows_of_which_two_are_late(tmp_path / "in")
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "shapes.py", params={"case": "late"})) as driver:
        driver.finish()
    assert Counter(label for label, _ in output(tmp_path / "out")) == {"in time": 5}
    assert [label for label, _ in output(tmp_path / "out-late")] == ["late", "late"]


def test_a_job_drops_the_rows_of_a_late_output_that_it_does_not_read_and_its_status_says_so(
    tmp_path: Path,
) -> None:
    write_rows_of_which_two_are_late(tmp_path / "in")
    document = driving.manifest(
        tmp_path, "shapes.py", params={"case": "late_unread"}, trigger={"processingTime": "100ms"}
    )
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driving.wait_for(
            lambda: len(output(tmp_path / "out")) == 5, driving.PATIENCE_S, "the rows in time", driver.process
        )
        status = client.status()
        metrics = client.metrics().splitlines()
        client.cancel()
        driver.finish()
    assert (status.rows_total, status.late_rows_total, status.dropped_rows_total) == (7, 2, 2)
    (told,) = status.notices
    assert told.startswith(
        "operator 'count': late rows are counted (sparkstate_dropped_rows_total) and dropped"
    )
    assert ".side_output(OutputTag('late'))" in told
    assert "sparkstate_dropped_rows_total 2.0" in metrics
    assert status.restarts == 0
    assert Counter(label for label, _ in output(tmp_path / "out")) == {"in time": 5}


@pytest.mark.extra
def test_a_sink_of_the_users_reads_an_epochs_output_as_often_as_it_likes(tmp_path: Path) -> None:
    schema = pa.schema([("label", pa.string())])
    write(tmp_path / "in", 0, [{"label": "a"}, {"label": "b"}], schema)
    write(tmp_path / "in", 1, [{"label": "a"}], schema)
    with driving.Driver(
        tmp_path, driving.manifest(tmp_path, "shapes.py", params={"case": "function_sink"})
    ) as driver:
        driver.finish()
    seen = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert seen == {
        "0.json": {"counts": [2, 2], "rows": [["a", 1], ["b", 1]]},
        "1.json": {"counts": [1, 1], "rows": [["a", 2]]},
    }


def test_what_an_epoch_changed_is_undone_when_its_sink_fails(tmp_path: Path) -> None:
    schema = pa.schema([("label", pa.string())])
    for number in range(3):
        write(tmp_path / "in", number, [{"label": "a"}], schema)
    params = {"case": "function_sink", "fail_once": "1"}
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "shapes.py", params=params)) as driver:
        driver.finish()
    assert (tmp_path / "failed").exists()
    seen = [json.loads((tmp_path / "out" / f"{epoch}.json").read_text())["rows"] for epoch in range(3)]
    assert seen == [[["a", 1]], [["a", 2]], [["a", 3]]]


def test_a_sink_that_hangs_fails_the_epoch_with_a_remedy_and_does_not_hold_up_the_drivers_end(
    tmp_path: Path,
) -> None:
    write(tmp_path / "in", 0, [{"label": "a"}], pa.schema([("label", pa.string())]))
    document = driving.manifest(
        tmp_path,
        "shapes.py",
        params={"case": "function_sink", "sleep": "3600"},
        sinkTimeout="1s",
        restart={"strategy": "none"},
    )
    with driving.Driver(tmp_path, document) as driver:
        assert driver.wait() == 1
    driving.wait_until_nothing_is_left(tmp_path)
    assert "longer than sinkTimeout (1 s)" in driver.end()["message"]


def test_free_spark_settings_of_the_manifest_reach_the_running_session(tmp_path: Path) -> None:
    write(tmp_path / "in", 0, [{"label": "a"}], pa.schema([("label", pa.string())]))
    names = {"session": "spark.acme.colour", "jvm": "acme.shade", "hadoop": "acme.size"}
    document = driving.manifest(
        tmp_path,
        "shapes.py",
        params={"case": "settings", "names": json.dumps(names)},
        sparkConf={
            "spark.acme.colour": "deep blue = 'ink'",
            "spark.driver.extraJavaOptions": "-Dacme.shade=dark",
            "spark.hadoop.acme.size": "large",
            "spark.sql.session.timeZone": "Asia/Tokyo",
        },
    )
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
    told = json.loads((tmp_path / "out").read_text())
    assert told == {"session": "deep blue = 'ink'", "jvm": "dark", "hadoop": "large", "noon": "21:00"}
