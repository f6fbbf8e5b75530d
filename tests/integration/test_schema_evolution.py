"""Real jobs whose code changes the types of its state, over checkpoints and savepoints, with kills in between."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from sparkstate.checkpoint import metadata
from sparkstate.control import documents
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark


def newest_types(folder: Path) -> dict[str, str]:
    """The types of the states in the newest checkpoint."""
    found = max(folder.glob("checkpoints/*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    return {state.name: state.value_type for state in metadata.decode(found.read_bytes(), str(found)).states}


@pytest.mark.fault(
    broken="a slot is killed while it takes up the state; a slot and the driver are killed in epochs and a checkpoint",
    when="while a job is upgraded to code with other types of state, twice: over a checkpoint, then over a savepoint",
    expected="the job comes back each time; earlier code still starts from the old checkpoint; output exact",
)
@pytest.mark.parametrize(
    ("backend", "other", "in_full"),
    [
        pytest.param("hashmap", "rocksdb", True, marks=pytest.mark.extra),
        pytest.param("rocksdb", "hashmap", True, marks=pytest.mark.extra),
        ("rocksdb", "hashmap", False),
    ],
    ids=["hashmap", "rocksdb", "rocksdb-sample"],
)
def test_a_job_is_upgraded_to_other_types_over_checkpoint_and_savepoint_with_kills(
    tmp_path: Path, backend: str, other: str, in_full: bool
) -> None:
    rows = totals.make_input(tmp_path / "in", files=2)
    fatal = tmp_path / "fatal"

    def document(version: int, of: str = backend, output: str = "out", **spec: object) -> dict[str, object]:
        params = {"version": str(version), "fatal": str(fatal), "output": str(tmp_path / output)}
        return driving.manifest(tmp_path, "typed_totals.py", stateBackend={"type": of}, params=params, **spec)

    with driving.Driver(tmp_path, document(1)) as first:
        first.finish()
    assert newest_types(tmp_path)["total"] == "ROW<INT>"

    # The new code dies half-way through taking the state up, for good: the code of before still has its checkpoint.
    rows += totals.make_input(tmp_path / "in", files=1, first=2, seed=5)
    if in_full:
        fatal.touch()
        never = {"restart": {"strategy": "none"}}
        with driving.Driver(tmp_path, document(2, **never), attempt=2) as died:
            assert died.wait() != 0
        assert not fatal.exists(), "nobody died"
        with driving.Driver(tmp_path, document(1), attempt=3) as back:
            back.finish()
        totals.check(tmp_path / "out", rows)

    # The new code takes it up, with the same death, and others.
    rows += totals.make_input(tmp_path / "in", files=2, first=3, seed=6)
    fatal.touch()
    with driving.Driver(tmp_path, document(2), attempt=4) as second:
        second.kill_in("slot-0", "commit")
        second.kill_in("slot-1", "checkpoint-upload")
        second.finish()
    assert not fatal.exists(), "nobody died"
    types = newest_types(tmp_path)
    assert types["total"] == 'ROW<"sum":LONG,"origin":STRING>'
    assert types["parity"] == 'ENUM<"NONE","ODD","EVEN">'
    totals.check(tmp_path / "out", rows)
    rows += totals.make_input(tmp_path / "in", files=1, first=5, seed=7)
    if in_full:
        with driving.Driver(tmp_path, document(2), attempt=5) as killed:
            killed.hold("driver", "checkpoint-commit")
            os.kill(killed.held("driver", "checkpoint-commit"), signal.SIGKILL)
            killed.wait()
    with driving.Driver(tmp_path, document(2, trigger={"processingTime": "100ms"}), attempt=6) as third:
        with third.client() as client:
            driving.wait_for(
                lambda: client.status().rows_total > 0, driving.PATIENCE_S, "the rest", third.process
            )
            client.trigger_savepoint(documents.SavepointRequest(trigger_id="upgrade", stop=True))
        third.finish()
    saved = third.end()["savepoint"]["location"]

    # The next types, from that savepoint of half-migrated state, on the other backend and in other slots.
    rows += totals.make_input(tmp_path / "in", files=2, first=6, seed=8)
    fatal.touch()
    last = document(3, other, "copy", name="copy", slots=3, restoreFrom={"uri": saved})
    with driving.Driver(tmp_path / "second", last) as fourth:
        fourth.kill_in("slot-2", "commit")
        fourth.finish()
    assert not fatal.exists(), "nobody died"
    types = newest_types(tmp_path)
    assert types["total"] == 'ROW<"origins":LIST<STRING>,"total":BIG_INT>'
    assert (types["timer"], types["parity"]) == ("BIG_INT", "STRING")
    for path in (tmp_path / "copy").glob("*/part-*"):
        shutil.copyfile(path, tmp_path / "out" / path.parent.name / f"part-copy-{path.name}")
    totals.check(tmp_path / "out", rows)
