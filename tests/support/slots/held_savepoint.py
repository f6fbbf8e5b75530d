"""A job whose slot does not store a savepoint before it may: a real slot, a real storage."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from support.slots import slots
from support.slots.running import Running

from sparkstate.control.documents import SavepointStatus
from sparkstate.control.port import SavepointTrigger
from sparkstate.log import records as log_records
from sparkstate.log.records import CheckpointCommitted, SavepointCommitted
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks


class Job:
    """Epochs, each of which adds one to a key, and a savepoint that the slot does not store before it may."""

    def __init__(self, folder: Path, **checkpointing: float) -> None:
        self.running = Running(folder, tolerable_failures=5, **checkpointing)
        self.epoch = -1
        self.may_store = threading.Event()
        runtime: Any = self.running.slot.server.slot.runtime
        runtime._snapshots.worker._upload_savepoint.submit(self.may_store.wait, 60.0)

    def ask(self, name: str, *, stop: bool = False) -> None:
        self.running.requests.add(SavepointTrigger(trigger_id=name, stop=stop))

    def run(self, *, changed: bool = True) -> None:
        """An epoch, and what is due after it, to its end."""
        self.epoch += 1
        self.running.slot.epoch(self.epoch, slots.rows(("a", 1)))
        self.running.checkpoints.after_commit(self.epoch, Watermarks(()), CapturedPosition, changed=changed)
        current = self.running.checkpoints._current
        if current is not None:
            current.wait()

    def checkpoint(self) -> None:
        self.running.requests.ask_checkpoint()
        self.run()

    def stored(self) -> None:
        """The savepoint may be stored, and is."""
        self.may_store.set()
        self.running.checkpoints._long_savepoint.wait(lambda: False)

    def status(self, name: str = "one") -> SavepointStatus:
        found = self.running.requests.find(name)
        assert found is not None
        return found

    def told_bytes_of(self) -> list[str]:
        return [work.name for work in self.running.view.long_work.documents() if work.total_bytes]

    def records(self) -> list[tuple[str, int]]:
        """Kind and epoch of what was committed, in the order of the log."""
        store = self.running.job_storage.lineage.store
        found = []
        for info in sorted(store.list("log/0"), key=lambda info: info.key):
            record = log_records.decode(store.get(info.key), info.key).record
            if isinstance(record, CheckpointCommitted):
                found.append(("checkpoint", record.epoch))
            elif isinstance(record, SavepointCommitted):
                found.append(("savepoint", record.epoch))
        return found
