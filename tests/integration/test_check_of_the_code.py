"""``sparkstate check`` knows what a start asks for beside states: what the code chooses, its sources, its windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.commands.checked import Checked

from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

OWN = "support.backends.own_backends"
ON_PATH = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
CHOOSING = """
import totals
from sparkstate import CustomStateBackend, JobManagerCheckpointStorage, StreamExecutionEnvironment

def job(spark, params):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_state_backend(CustomStateBackend(params["class"]))
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    totals.declare(totals.source(spark, params), params)
"""
ORDERED = """
import totals
import sparkstate
from pyspark.sql import functions as F
from sparkstate.windows import TumblingEventTimeWindows

def job(spark, params):
    times = F.timestamp_millis(F.col("at")).alias("at")
    rows = [totals.source(spark, params).select("k", "v", times).withWatermark("at", "1 second") for _ in "ab"]
    keyed = {name: sparkstate.keyed(each, "k") for name, each in zip(params["order"], rows)}
    for name, size in (("a", params["size"]), ("b", "1 minute")):
        windowed = keyed[name].window(TumblingEventTimeWindows.of(size))
        windowed.agg(F.sum("v").alias("v"), uid=name).sink(sparkstate.FileSink(params["output"] + "/" + name))
"""


def of_code(folder: Path, code: str, **spec: Any) -> dict[str, Any]:
    (folder / "own.py").write_text(f"import sys\nsys.path.insert(0, {str(driving.JOBS)!r})\n{code}")
    document = driving.manifest(folder, "totals.py", **spec)
    document["spec"]["pythonFile"] = str(folder / "own.py")
    return document


def unconfigured(document: dict[str, Any]) -> dict[str, Any]:
    del document["spec"]["stateBackend"], document["spec"]["checkpointing"]
    return document


def test_a_job_configured_by_its_code_alone_is_checked_where_its_state_is_named(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", 2)
    places = {name: str(tmp_path / name) for name in ("checkpoints", "savepoints")}

    def on(backend: str) -> dict[str, Any]:
        params = {"backend": backend, **places}
        return unconfigured(driving.manifest(tmp_path, "environment.py", params=params))

    with driving.Driver(tmp_path, on("rocksdb")) as driver:
        driver.finish()
    nowhere = Checked(tmp_path, on("rocksdb"), "--json")
    assert (nowhere.code, nowhere.document["reason"]) == (2, "SpecInvalid")
    assert f"give --from {places['checkpoints']}" in nowhere.document["message"]

    named = Checked(tmp_path, on("rocksdb"), "--from", places["checkpoints"], "-o", "json")
    assert named.code == 0, named.err
    assert set(named.outcomes().values()) == {"as-it-is"}
    assert named.document["differences"] == []

    other = Checked(tmp_path, on("hashmap"), "--from", places["checkpoints"], "-o", "json")
    assert other.code == 3, other.err
    (backend,) = other.document["differences"]
    assert (backend["field"], backend["stored"], backend["declared"]) == (
        "spec.stateBackend.type",
        "rocksdb",
        "hashmap",
    ), "the backend that the code chooses"


def test_a_backend_of_ones_own_and_checkpoints_in_memory_are_those_of_the_code(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", 1)
    (tmp_path / "totals.py").write_text((driving.JOBS / "totals.py").read_text())

    def of(name: str) -> dict[str, Any]:
        return unconfigured(of_code(tmp_path, CHOOSING, params={"class": f"{OWN}:{name}"}))

    passed = Checked(tmp_path, of("MemoryBackend"), "-o", "json", environment=ON_PATH)
    assert passed.code == 0, passed.err
    assert "nothing is stored" in passed.document["found"]
    assert set(passed.outcomes().values()) == {"new"}
    assert any(f"{OWN}:MemoryBackend passes the conformance kit" in one for one in passed.document["notices"])

    refused = Checked(tmp_path, of("NoBackend"), "--json", environment=ON_PATH)
    assert (refused.code, refused.document["reason"]) == (2, "BackendRefused")
    assert "does not derive from" in refused.document["message"]


def test_sources_and_windows_that_a_start_refuses_are_refused_by_the_check_in_its_words(
    tmp_path: Path,
) -> None:
    totals.make_input(tmp_path / "in", 2)
    (tmp_path / "totals.py").write_text((driving.JOBS / "totals.py").read_text())

    def of(order: str, size: str) -> dict[str, Any]:
        params = {"order": order, "size": size}
        return of_code(tmp_path, ORDERED, params=params, restart={"strategy": "none"})

    with driving.Driver(tmp_path, of("ab", "10 seconds")) as first:
        first.finish()
    same = Checked(tmp_path, of("ab", "10 seconds"), "-o", "json")
    assert (same.code, same.document["differences"], same.document["notices"]) == (0, [], []), same.err

    changed = [(of("ba", "10 seconds"), "sources"), (of("ab", "20 seconds"), "premises")]
    for attempt, (document, field) in enumerate(changed, 2):
        found = Checked(tmp_path, document, "-o", "json")
        assert found.code == 3, found.err
        differences = found.document["differences"]
        assert {one["field"] for one in differences} == {field}
        assert all(one["refused"] for one in differences)
        with driving.Driver(tmp_path, document, attempt=attempt) as again:
            assert again.wait() == 3
        assert again.end()["message"].endswith(differences[0]["message"])
    assert [one["stored"] for one in differences] == [
        "a: size of windows 10000 ms",
        "a: slide of windows 10000 ms",
    ]
