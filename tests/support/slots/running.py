"""One incarnation with real slots, most often one, and a real storage, between whose epochs a test asks for
checkpoints."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from support.slots import slots

from sparkstate import clock, phases
from sparkstate.control import documents
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.pending_checkpoint import PendingCheckpoint
from sparkstate.driver.requests import Requests
from sparkstate.driver.snapshot_parts import StoredJob
from sparkstate.driver.view import JobView
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings
from sparkstate.sinks import file_sink
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import capture
from sparkstate.spark.watermarks import Watermarks


def settings(folder: Path, count: int = 1, **checkpointing: float) -> JobSettings:
    """Of a job with so many slots; its storage is ``folder/storage``."""
    checkpoint = CheckpointSettings(storage=str(folder / "storage"), interval_s=3600.0)
    checkpoint = dataclasses.replace(checkpoint, **checkpointing)  # type: ignore[arg-type]
    return JobSettings(name="job", entry=EntryPoint(module="a.job"), slots=count, checkpoint=checkpoint)


def stored_job(**sinks: Path) -> StoredJob:
    """Of the operator ``sum``, with the folders of its exact sinks by their uids."""
    paths = {uid: str(folder) for uid, folder in sinks.items()}
    return StoredJob(operators=("sum",), premises={}, sink_paths=paths, backend="hashmap")


class Running:
    """The operator ``sum``, whose output goes to files in ``folder/out``."""

    def __init__(
        self,
        folder: Path,
        count: int = 1,
        backend: str = "hashmap",
        time: clock.Clock | None = None,
        **checkpointing: float,
    ) -> None:
        self.out = folder / "out"
        time = time or clock.SystemClock()
        self.claimed = claim(settings(folder, count, **checkpointing), time, 1, "a test")
        self.job_storage = JobStorage(self.claimed, stored_job(sum=self.out))
        self.job_storage.begin_incarnation(self.job_storage.restore_point(), lambda number: None)
        lineage = self.job_storage.lineage
        url = self.job_storage.root.url
        self.slots = [
            slots.Slot(
                folder / f"slot-{number}",
                dataclasses.replace(
                    slots.plan(folder, number, count, backend=backend), lineage=lineage.id, storage_url=url
                ),
            )
            for number in range(count)
        ]
        for slot in self.slots:
            slot.restore()
        self.slot = self.slots[0]
        self.group = SlotGroup(tuple(slot.address for slot in self.slots), slots.KEY, 1, "here")
        self.requests = Requests()
        self.view = JobView(documents.JobIdentity(job_uid="u", attempt=1), "job", "default", "hashmap", time)
        self.checkpoints = Checkpoints(
            self.group,
            self.job_storage,
            settings(folder, count, **checkpointing).checkpoint,
            self.requests,
            self.view,
            time,
            phases.Phases("driver", time, {}),
            slots.KEY_SPACE,
            base=-1,
        )

    def start(self, epoch: int) -> PendingCheckpoint:
        return self.checkpoints.start(epoch, Watermarks(()), capture.CapturedPosition())

    def refuse_publication(self, epoch: int) -> None:
        """What is staged up to that epoch has no way to its name: a folder is there."""
        name = f"part-00001-{epoch:09d}-000-sum-{self.job_storage.lineage.id[:8]}.parquet"
        (self.out / name / "in-the-way").mkdir(parents=True)

    def staged(self) -> list[Path]:
        folder = self.out / "_sparkstate_staging"
        aside = (file_sink.BEGUN, ".ticket")
        return [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(aside)]

    def close(self) -> None:
        self.group.close()
        for slot in self.slots:
            slot.close()
