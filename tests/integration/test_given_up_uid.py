"""Windows of another size under the uid of windows whose state was dropped, in whole jobs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparkstate.control import documents
from sparkstate.settings import SavepointFormat
from sparkstate_tools.drivers import driving, totals, window_rows

pytestmark = pytest.mark.spark
FORMATS: dict[str, SavepointFormat] = {
    "hashmap": "canonical",
    "rocksdb": "native",
}


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.extra)])
def test_other_windows_under_a_uid_that_was_given_up_find_none_of_its_slices(
    tmp_path: Path, backend: str
) -> None:
    """``windows`` becomes ``others`` with another size, as the refusal says, and then has that size as well."""
    size, savepoint = "4 seconds", ""
    for life, uid in enumerate(["windows", "others", "windows"]):
        window_rows.make_input(tmp_path / f"in-{life}", files=3, first=3 * life, seed=life)
        (tmp_path / "in").mkdir(exist_ok=True)
        for path in (tmp_path / f"in-{life}").iterdir():
            os.link(path, tmp_path / "in" / path.name)
        document = driving.manifest(
            tmp_path,
            "window_aggregates.py",
            name=f"life-{life}",
            stateBackend={"type": backend},
            params={
                "keys": "n",
                "size": size,
                "slide": size,
                "uid": uid,
                "output": str(tmp_path / f"out-{life}"),
            },
            **({"restoreFrom": {"uri": savepoint}, "allowNonRestoredState": True} if savepoint else {}),
            **({"trigger": {"processingTime": "100ms"}} if life < 2 else {}),
        )
        with driving.Driver(tmp_path / f"life-{life}", document) as driver:
            if life < 2:
                savepoint = stop_behind(driver, 3 * 400, f"after-{life}", FORMATS[backend])
            driver.finish()
        size = "8 seconds"
    found = {
        (row["n"], row["window_start"].timestamp()): row["count(1)"]
        for row in totals.read(tmp_path / "out-2")
    }
    assert found == counts(tmp_path / "in-2", 8)


def counts(folder: Path, size_s: int) -> Counter[tuple[Any, float]]:
    """How many of these rows each key has in each window, by the time at which it begins."""
    rows = pq.read_table(folder, columns=["n", "at"]).to_pylist()
    return Counter((row["n"], row["at"].timestamp() // size_s * size_s) for row in rows)


def stop_behind(driver: driving.Driver, rows: int, trigger_id: str, format_type: SavepointFormat) -> str:
    """Stop with a savepoint when so many rows are in the state; its URL."""
    with driver.client() as client:
        driving.wait_for(
            lambda: client.status().rows_total == rows, driving.PATIENCE_S, "all rows", driver.process
        )
        client.trigger_savepoint(
            documents.SavepointRequest(trigger_id=trigger_id, stop=True, format_type=format_type)
        )
        driver.finish()
    return str(driver.end()["savepoint"]["location"])
