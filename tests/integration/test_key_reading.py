"""State of a running job by keys of each type, and of windows, as they are shown; and the answers to wrong keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sparkstate.control import client as clients
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS: dict[str, tuple[str, Any]] = {
    "text": ("'ä'", "ä"),
    "tiny": ("cast(-7 as tinyint)", -7),
    "long": ("cast(7 as bigint)", 7),
    "boolean": ("true", True),
    "float": ("cast(0.1 as float)", 0.1),
    "double": ("cast('NaN' as double)", "NaN"),
    "decimal": ("cast(1.5 as decimal(10,2))", "1.50"),
    "wide": ("cast(-1.5 as decimal(38,10))", "-1.5"),
    "date": ("date'2026-01-01'", "2026-01-01"),
    "instant": ("timestamp'2026-01-01 08:30:00.000005 UTC'", "2026-01-01T08:30:00.000005+00:00"),
    "local": ("timestamp_ntz'2026-01-01 08:30:00'", "2026-01-01T08:30:00"),
    "binary": ("X'00ff'", "AP8="),
    "null": ("cast(null as date)", None),
}
"""By a name: Spark's expression for the key, and how it is asked for."""
JOB = """
import json
import totals
import sparkstate
from sparkstate import Types
from sparkstate.windows import EventTimeSessionWindows, TumblingEventTimeWindows

class Sums(sparkstate.AggregateFunction):
    def create_accumulator(self):
        return 0
    def add(self, value, accumulator):
        return accumulator + value.v
    def get_result(self, accumulator):
        return accumulator
    def merge(self, one, other):
        return one + other

def job(spark, params):
    keys = json.loads(params["keys"])
    rows = totals.source(spark, params).selectExpr("*", *[f"{sql} AS `key-{name}`" for name, sql in keys.items()])
    of = {name: [f"key-{name}"] for name in keys} | {"both": ["key-date", "key-binary"]}
    for uid, columns in of.items():
        counted = sparkstate.keyed(rows, columns, event_time="at").process(
            totals.Groups(), uid=uid, output_schema="v bigint, count bigint")
        counted.sink(lambda frame, epoch: None)
    for uid, assigner in (
        ("tumbling", TumblingEventTimeWindows.of("5 min")), ("session", EventTimeSessionWindows.with_gap("5 min"))
    ):
        windows = sparkstate.keyed(rows, "key-date", event_time="at").window(assigner)
        summed = windows.aggregate(Sums(), uid=uid, output_schema="v bigint", accumulator_type=Types.LONG())
        summed.sink(lambda frame, epoch: None)
"""


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_key_is_read_as_it_is_shown_and_another_one_is_refused(tmp_path: Path, backend: str) -> None:
    rows = totals.make_input(tmp_path / "in", files=1)
    (tmp_path / "own.py").write_text(JOB)
    shutil.copy(driving.JOBS / "totals.py", tmp_path)
    params = {"keys": json.dumps({name: sql for name, (sql, _) in KEYS.items()})}
    document = driving.manifest(
        tmp_path,
        "totals.py",
        trigger={"processingTime": "100ms"},
        stateBackend={"type": backend},
        params=params,
    )
    document["spec"]["pythonFile"] = str(tmp_path / "own.py")
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driving.wait_for(
            lambda: client.status().rows_total >= len(rows), driving.PATIENCE_S, "all rows", driver.process
        )
        found = {name: client.key_state(name, "count", key).value for name, (_, key) in KEYS.items()}
        assert found == dict.fromkeys(KEYS, len(rows))
        assert client.key_state("decimal", "count", 1.5).value == len(rows), "the same number"
        assert client.key_state("instant", "count", "2026-01-01T09:30:00.000005+01:00").value == len(rows)
        assert client.key_state("both", "count", ["2026-01-01", "AP8="]).value == len(rows)
        assert client.key_state("date", "count", "2026-01-02").value is None

        total = sum(row[2] for row in rows)
        assert client.key_state("tumbling", "_window/contents", "2026-01-01", [0, 300_000]).value == total
        assert client.key_state("tumbling", "_window/contents", "2026-01-01", [1, 300_000]).value is None
        assert client.key_state("session", "_window/contents", "2026-01-01").value == total

        refused(client, "date", "soon", told="key column 'key-date' is date: \"soon\" does not fit SQL_DATE")
        refused(client, "binary", 7, told='such as "AP8=" (base64)')
        refused(client, "both", "2026-01-01", told="has 1 part(s); the operator is keyed by")
        refused(client, "tumbling", "2026-01-01", {"start": 0}, told="cannot be a namespace")
        client.cancel()
        driver.finish()


def refused(client: Any, operator: str, key: Any, namespace: Any = None, *, told: str) -> None:
    with pytest.raises(clients.ControlRefused) as answer:
        client.key_state(operator, "count", key, namespace)
    assert answer.value.status == 400
    assert told in str(answer.value)
