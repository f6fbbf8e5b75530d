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
from sparkstate.storage import open_store
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TTL_MS = 300
ROWS_OF_FILE = 100
NEVER = 1 << 62


class Expected:
    """The output, by plain Python: each file is an epoch. From row ``switched`` on, the count of rows expires too."""

    def __init__(self, rows: list[totals.Row], switched: int) -> None:
        self.total: dict[str, tuple[int, int]] = {}
        self.recent: dict[str, list[int]] = defaultdict(list)
        self.output: Counter[Any] = Counter()
        counts: dict[str, tuple[int, int]] = {}
        ever: Counter[str] = Counter()
        latest = self.watermark = -(2**63)
        for key, number, value, at in sorted(rows, key=lambda row: row[1]):
            if number % ROWS_OF_FILE == 0 and number:
                self.watermark = latest - 1
            if number == switched:
                counts = {key: (count, self.watermark) for key, (count, _) in counts.items()}
            latest, stamp = max(latest, at), max(self.watermark, at)
            self.total[key] = (value + self.living(self.total.get(key)), stamp)
            self.recent[key] = [each for each in self.recent[key] if self.lives(each)] + [stamp]
            before = counts.get(key, (0, stamp))
            counts[key] = (1 + (self.living(before) if number >= switched else before[0]), stamp)
            ever[key] += 1
            self.output[
                key, number, self.total[key][0], len(self.recent[key]), counts[key][0], ever[key]
            ] += 1
        self.watermark = latest - 1

    def lives(self, stamp: int) -> bool:
        return stamp + TTL_MS > self.watermark

    def living(self, pair: tuple[int, int] | None) -> int:
        return pair[0] if pair is not None and self.lives(pair[1]) else 0


def stored_in(location: str, folder: Path) -> Counter[str]:
    """How many values each state has in a savepoint."""
    store = open_store(location, create=False)
    metadata = codec.decode(store.get("_metadata"), "_metadata")
    downloader, found = Downloader(store), Counter[str]()
    for shard in metadata.shards:
        for file in shard.files:
            path = folder / f"{shard.shard}"
            path.write_bytes(downloader.read(file))
            read = canonical.CanonicalFile(path)
            found.update(read.tables[row.table].name for row in read.rows())
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

    until_then = Expected(rows, NEVER)
    living = sum(until_then.lives(stamp) for _, stamp in until_then.total.values())
    recent = sum(until_then.lives(stamp) for stamps in until_then.recent.values() for stamp in stamps)
    keys = len({row[0] for row in rows})
    assert stored_in(location, tmp_path) == {"total": living, "recent": recent, "rows": keys, "clocked": keys}
    assert living < keys

    rows += totals.make_input(tmp_path / "in", files=6, first=16, seed=9, **made)
    document = driving.manifest(
        tmp_path,
        "expiring.py",
        name="copy",
        slots=3,
        stateBackend={"type": "rocksdb"},
        restoreFrom={"uri": location},
        params={"ttl": str(TTL_MS), "rows_expire": "yes"},
    )
    with driving.Driver(tmp_path / "copy", document) as second:
        second.finish()
    found = Counter(tuple(row.values()) for row in totals.read(tmp_path / "out" / "expiring"))
    wanted = Expected(rows, 16 * ROWS_OF_FILE).output
    assert found == wanted, (
        f"missing {list((wanted - found).items())[:3]}, too many {list((found - wanted).items())[:3]}"
    )


@pytest.mark.extra
@pytest.mark.fault(
    broken="a slot whose state expires is killed (SIGKILL)",
    when="in the middle of a sweep; then in the middle of the change to another time-to-live, in the next attempt",
    expected="the slots go back to the last checkpoint, which is swept and changed anew; output exact",
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_slot_killed_while_it_sweeps_or_takes_up_another_time_to_live_changes_nothing(
    tmp_path: Path, backend: str
) -> None:
    made: dict[str, Any] = {"rows": ROWS_OF_FILE, "keys": 300}
    rows = totals.make_input(tmp_path / "in", files=10, **made)

    def document(moment: str, **params: str) -> dict[str, Any]:
        given = {"ttl": str(TTL_MS), "moment": moment, "died": str(tmp_path / moment), **params}
        return driving.manifest(
            tmp_path, "dying_sweeps.py", params=given, stateBackend={"type": backend},
            trigger={"processingTime": "100ms"} if moment == "sweeping" else {"availableNow": True},
        )  # fmt: skip

    with driving.Driver(tmp_path, document("sweeping")) as first, first.client() as client:
        driving.wait_for(
            lambda: (tmp_path / "sweeping").exists() and client.status().rows_total >= len(rows),
            driving.PATIENCE_S,
            "a death in a sweep, and all rows",
            first.process,
        )
        last = client.trigger_checkpoint()
        driving.wait_for(
            lambda: any(
                each.id >= last and each.status is documents.CheckpointStatus.COMPLETED
                for each in client.checkpoints()
            ),
            driving.PATIENCE_S,
            "a checkpoint of all rows",
            first.process,
        )
        os.kill(first.process.pid, signal.SIGKILL)
        first.wait()
    driving.wait_until_nothing_is_left(tmp_path)

    switched = len(rows)
    rows += totals.make_input(tmp_path / "in", files=6, first=10, seed=9, **made)
    with driving.Driver(tmp_path, document("adopting", rows_expire="yes"), attempt=2) as second:
        second.finish()
        assert (tmp_path / "adopting").exists(), "no state took up another time-to-live"
    found = Counter(tuple(row.values()) for row in totals.read(tmp_path / "out" / "expiring"))
    wanted = Expected(rows, switched).output
    assert found == wanted, (
        f"missing {list((wanted - found).items())[:3]}, too many {list((found - wanted).items())[:3]}"
    )


@pytest.mark.extra
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_that_expires_leaves_a_job_whose_input_pauses(tmp_path: Path, backend: str) -> None:
    totals.make_input(tmp_path / "in", files=2, rows=1000)
    document = driving.manifest(
        tmp_path,
        "single_values.py",
        params={"ttl": "4000", "bytes": "200"},
        stateBackend={"type": backend},
        trigger={"processingTime": "200ms"},
    )

    def rows_of_state() -> int:
        return sum(slot.rows for slot in client.status().slots)

    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driving.wait_for(
            lambda: client.status().rows_total == 2000, driving.PATIENCE_S, "all rows", driver.process
        )
        # The figures of slots come once a second: those of before the rows say that there is no state, too.
        driving.wait_for(lambda: rows_of_state() > 0, driving.PATIENCE_S, "their state", driver.process)
        driving.wait_for(lambda: rows_of_state() == 0, driving.PATIENCE_S, "no state", driver.process)
        assert client.status().rows_total == 2000
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="empty", stop=True))
        driver.finish()
    assert stored_in(str(driver.end()["savepoint"]["location"]), tmp_path) == {}
