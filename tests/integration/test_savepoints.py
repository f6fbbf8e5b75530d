"""Savepoints of a running job: idempotent, restored elsewhere, into another parallelism and another backend."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sparkstate.cli import main
from sparkstate.control import documents
from sparkstate.control.client import ControlRefused
from sparkstate.control.documents import SavepointPhase
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark


def published(folder: Path, up_to: int | None = None) -> Counter[tuple[Any, ...]]:
    """Records of the published files whose last epoch is not beyond ``up_to``."""
    import pyarrow.parquet as pq

    found: Counter[tuple[Any, ...]] = Counter()
    for path in folder.glob("part-*.parquet"):
        if up_to is None or int(path.name.split("-")[2]) <= up_to:
            found.update(tuple(row.values()) for row in pq.read_table(path).to_pylist())
    return found


def test_a_savepoint_is_idempotent_restores_elsewhere_and_closes_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = totals.make_input(tmp_path / "in", files=4)
    document = driving.manifest(tmp_path, "totals.py", trigger={"processingTime": "100ms"})
    with driving.Driver(tmp_path, document) as first, first.client() as client:
        driving.wait_for(
            lambda: (client.status().epoch or 0) >= 2, driving.PATIENCE_S, "some epochs", first.process
        )
        request = documents.SavepointRequest(trigger_id="half-way")
        client.trigger_savepoint(request)
        half_way = client.wait_for_savepoint("half-way", 60)
        assert half_way.status == SavepointPhase.COMPLETED and half_way.location is not None
        assert client.trigger_savepoint(request).location == half_way.location
        with pytest.raises(ControlRefused) as refused:
            client.trigger_savepoint(documents.SavepointRequest(trigger_id="half-way", stop=True))
        assert refused.value.status == 409

        rows += totals.make_input(tmp_path / "in", files=3, first=4, seed=8)
        driving.wait_for(
            lambda: client.status().rows_total >= len(rows), driving.PATIENCE_S, "all rows", first.process
        )
        some_key = rows[0][0]
        state = client.key_state("totals", "total", some_key)
        assert state.value == sum(row[2] for row in rows if row[0] == some_key)
        assert state.kind == "value"
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="the-end", stop=True, drain=True))
        first.finish()
    last_word = first.end()
    assert last_word["reason"] == "Suspended"
    # Nobody can ask it any more: the operator has to learn of the savepoint from its last word.
    saved = last_word["savepoint"]
    assert (saved["trigger_id"], saved["epoch"] >= (half_way.epoch or 0)) == ("the-end", True)
    assert (Path(saved["location"].removeprefix("file://")) / "_metadata").is_file()
    totals.check(tmp_path / "out", rows)
    assert len(totals.read(tmp_path / "out" / "quiet")) >= 50
    sums: Counter[str] = Counter()
    for k, _, v, *_ in rows:
        sums[k] += v
    capsys.readouterr()
    assert main.main(["savepoints", "read", saved["location"], "--state", "total"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {entry["key"]: entry["value"] for entry in entries} == dict(sums)

    copy = driving.manifest(
        tmp_path,
        "totals.py",
        name="copy",
        slots=3,
        stateBackend={"type": "rocksdb"},
        restoreFrom={"uri": half_way.location},
        params={"output": str(tmp_path / "copy")},
    )
    with driving.Driver(tmp_path / "second", copy) as second:
        second.finish()
        assert "restoring from" in second.log()
    assert half_way.epoch is not None
    both = published(tmp_path / "out" / "totals", half_way.epoch) + published(tmp_path / "copy" / "totals")
    assert both == totals.expected_totals(rows)

    with driving.Driver(tmp_path, document, attempt=2) as again, again.client() as client:
        driving.wait_for(
            lambda: client.status().phase == documents.DriverPhase.RUNNING,
            driving.PATIENCE_S,
            "RUNNING",
            again.process,
        )
        stored = client.savepoint("half-way")
        assert stored is not None and stored.location == half_way.location
        client.cancel()
        again.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
def test_a_job_that_begins_with_a_savepoint_of_another_has_a_checkpoint_of_its_own_also_without_input(
    tmp_path: Path,
) -> None:
    totals.make_input(tmp_path / "in", files=1)
    often = {"trigger": {"processingTime": "100ms"}}
    with (
        driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py", **often)) as first,
        first.client() as client,
    ):
        driving.wait_for(lambda: client.status().rows_total > 0, driving.PATIENCE_S, "rows", first.process)
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="s"))
        stored = client.wait_for_savepoint("s", 60)
        client.cancel()
        first.finish()
    copy = driving.manifest(tmp_path, "totals.py", name="copy", restoreFrom={"uri": stored.location}, **often)
    with driving.Driver(tmp_path / "second", copy) as second, second.client() as client:
        driving.wait_for(
            lambda: client.status().checkpoints_completed > 0,
            driving.PATIENCE_S,
            "a checkpoint",
            second.process,
        )
        assert client.status().rows_total == 0
        client.cancel()
        second.finish()


@pytest.mark.extra
def test_an_attempt_that_was_stopped_with_a_savepoint_does_not_run_again(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=1)
    document = driving.manifest(tmp_path, "totals.py", trigger={"processingTime": "100ms"})
    with driving.Driver(tmp_path, document) as first, first.client() as client:
        driving.wait_for(lambda: client.status().rows_total > 0, driving.PATIENCE_S, "rows", first.process)
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="s", stop=True))
        first.finish()
    with driving.Driver(tmp_path, document) as same_attempt:
        assert same_attempt.wait() == 4
    assert same_attempt.end()["reason"] == "Fenced"
    assert "was stopped with the savepoint" in same_attempt.end()["message"]
