"""State that expires in whole jobs: a kill, a savepoint, the other backend, another number of slots."""

from __future__ import annotations

import os
import signal
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from sparkstate.backends import canonical
from sparkstate.checkpoint import Downloader
from sparkstate.checkpoint import metadata as codec
from sparkstate.control import documents
from sparkstate.serde import expiring
from sparkstate.storage import open_store
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TTL_MS = 300
ROWS_OF_FILE = 100


def expected(rows: list[totals.Row]) -> tuple[Counter[Any], int, int]:
    """The output, and how many totals and recent rows live at the end, by plain Python: each file is an epoch."""
    total: dict[str, tuple[int, int]] = {}
    recent: dict[str, list[int]] = defaultdict(list)
    seen: Counter[str] = Counter()
    found: Counter[Any] = Counter()
    watermark = latest = -(2**63)
    for key, number, value, at in sorted(rows, key=lambda row: row[1]):
        if number % ROWS_OF_FILE == 0 and number:
            watermark = latest - 1
        latest, stamp = max(latest, at), max(watermark, at)
        before = total.get(key, (0, -(2**63)))
        total[key] = (value + (before[0] if before[1] + TTL_MS > watermark else 0), stamp)
        recent[key] = [each for each in recent[key] if each + TTL_MS > watermark] + [stamp]
        seen[key] += 1
        found[key, number, total[key][0], len(recent[key]), seen[key]] += 1
    watermark = latest - 1
    living = sum(stamp + TTL_MS > watermark for _, stamp in total.values())
    return found, living, sum(each + TTL_MS > watermark for stamps in recent.values() for each in stamps)


def stored_in(location: str, folder: Path) -> dict[str, list[int]]:
    """The stamps of every state in a savepoint."""
    store = open_store(location, create=False)
    metadata = codec.decode(store.get("_metadata"), "_metadata")
    downloader, found = Downloader(store), defaultdict[str, list[int]](list)
    for shard in metadata.shards:
        for file in shard.files:
            path = folder / f"{shard.shard}"
            path.write_bytes(downloader.read(file))
            read = canonical.CanonicalFile(path)
            for row in read.rows():
                found[read.tables[row.table].name].append(expiring.stamp_of(row.value))
    downloader.close()
    return found


@pytest.mark.fault(
    broken="a slot whose state expires is killed (SIGKILL)",
    when="after a checkpoint",
    expected="state expires as if nothing had happened; the savepoint has nothing that has expired; output exact",
)
@pytest.mark.fault_on("hashmap, then rocksdb")
def test_state_expires_exactly_through_a_kill_a_savepoint_and_a_change_of_backend(tmp_path: Path) -> None:
    made: dict[str, Any] = {"rows": ROWS_OF_FILE, "keys": 300}
    rows = totals.make_input(tmp_path / "in", files=8, **made)
    spec: dict[str, Any] = {"params": {"ttl": str(TTL_MS)}}
    often = {"trigger": {"processingTime": "100ms"}}
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "expiring.py", **spec, **often)) as first:
        with first.client() as client:
            driving.wait_for(
                lambda: client.status().checkpoints_completed > 0,
                driving.PATIENCE_S,
                "a checkpoint",
                first.process,
            )
            os.kill(first.pid_of("slot-1"), signal.SIGKILL)
            rows += totals.make_input(tmp_path / "in", files=8, first=8, seed=8, **made)
            driving.wait_for(
                lambda: client.status().rows_total >= len(rows),
                driving.PATIENCE_S,
                "all rows",
                first.process,
            )
            client.trigger_savepoint(documents.SavepointRequest(trigger_id="one", stop=True))
        first.finish()
        location = str(first.end()["savepoint"]["location"])
    assert "restoring checkpoint" in first.log()

    _, living, recent = expected(rows)
    stored = stored_in(location, tmp_path)
    keys = len({row[0] for row in rows})
    assert (len(stored["total"]), len(stored["recent"]), len(stored["rows"])) == (living, recent, keys)
    assert living < keys

    rows += totals.make_input(tmp_path / "in", files=6, first=16, seed=9, **made)
    document = driving.manifest(
        tmp_path,
        "expiring.py",
        name="copy",
        slots=3,
        stateBackend={"type": "rocksdb"},
        restoreFrom={"uri": location},
        **spec,
    )
    with driving.Driver(tmp_path / "copy", document) as second:
        second.finish()
    found = Counter(tuple(row.values()) for row in totals.read(tmp_path / "out" / "expiring"))
    wanted, _, _ = expected(rows)
    assert found == wanted, (
        f"missing {list((wanted - found).items())[:3]}, too many {list((found - wanted).items())[:3]}"
    )
