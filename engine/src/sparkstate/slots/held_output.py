"""The output that a slot's sinks have taken since the last checkpoint, until a checkpoint publishes it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from sparkstate import disposal, local_disk
from sparkstate.operators.base import EpochOverlay, Spec
from sparkstate.sinks.file_sink import FileSinkWriter, RotatedOutput
from sparkstate.slots import outputs
from sparkstate.slots.plan import SlotPlan


class HeldOutput:
    """The writers of all sinks of one slot. ``directory`` takes their files."""

    def __init__(self, plan: SlotPlan, directory: Path) -> None:
        self._sinks = plan.sinks
        self._directory = directory
        self.writers = {
            sink.uid: FileSinkWriter(
                sink.sink, sink.uid, plan.slot, plan.incarnation, plan.lineage, directory, plan.s3
            )
            for sink in plan.sinks
        }
        """By the sink's uid."""
        self.size_bytes = 0
        """As of the last :meth:`weigh`."""

    def hold(self, winners: Mapping[str, tuple[Spec, EpochOverlay]]) -> None:
        """Take the output of a committed epoch, from the overlays by their operator's uid."""
        for sink in self._sinks:
            if sink.operator in winners:
                spec, overlay = winners[sink.operator]
                with self._holding(sink.uid):
                    self.writers[sink.uid].hold(outputs.visible(spec, sink.tag, overlay))

    def weigh(self) -> int:
        """How many bytes are held now."""
        self.size_bytes = sum(writer.held_bytes for writer in self.writers.values())
        return self.size_bytes

    def rotate(self, checkpoint_id: int) -> dict[str, tuple[RotatedOutput, ...]]:
        """Put what is held aside for this checkpoint; by the uid of the sinks that hold something."""
        rotated = {}
        for uid, writer in self.writers.items():
            with self._holding(uid):
                rotated[uid] = writer.rotate(checkpoint_id)
        return {uid: parts for uid, parts in rotated.items() if parts}

    def _holding(self, uid: str) -> contextlib.AbstractContextManager[None]:
        return local_disk.used_for(f"holding the output of {uid!r} in {self._directory}")

    def close(self) -> None:
        """Close the writers, every one. Raises the first of their errors."""
        disposal.close_all([writer.close for writer in self.writers.values()])
