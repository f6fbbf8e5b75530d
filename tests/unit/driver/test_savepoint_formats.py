"""A savepoint has the format that its request names, through the whole of a driver: a real slot, a real storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.slots import slots
from support.slots.running import Running

from sparkstate.checkpoint.savepoint import open_snapshot
from sparkstate.control.documents import SavepointPhase
from sparkstate.control.port import SavepointTrigger, TriggerConflict
from sparkstate.settings import SavepointFormat
from sparkstate.spark import capture
from sparkstate.spark.watermarks import Watermarks
from sparkstate.storage import open_store


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("format_type", ["canonical", "native"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_savepoint_has_the_format_that_was_asked_for(
    tmp_path: Path, backend: str, format_type: SavepointFormat, stop: bool
) -> None:
    running = Running(tmp_path, backend=backend)
    running.slot.epoch(0, slots.rows(("a", 1)))
    request = SavepointTrigger(trigger_id="one", stop=stop, format_type=format_type)
    running.requests.add(request)
    running.checkpoints.start(0, Watermarks(()), capture.CapturedPosition(), request).settle()
    running.checkpoints.wait()
    status = running.requests.find("one")
    assert status is not None and status.status is SavepointPhase.COMPLETED, status
    metadata = open_snapshot(status.location or "", open_store).metadata
    # The state of HashMap has one form only.
    native = format_type == "native" and backend == "rocksdb"
    assert {shard.format for shard in metadata.shards} == {"rocksdb" if native else "canonical"}
    running.close()


def test_another_format_is_another_request(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.requests.add(SavepointTrigger(trigger_id="one"))
    with pytest.raises(TriggerConflict, match="'format_type': 'canonical'"):
        running.requests.add(SavepointTrigger(trigger_id="one", format_type="native"))
    running.close()
