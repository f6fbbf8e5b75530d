"""The checkpoints and savepoints that a driver has begun, with what became of each, for the control endpoint."""

from __future__ import annotations

from sparkstate.control.documents import CheckpointInfo, CheckpointKind, CheckpointStatus

HISTORY = 500
_OVER = "its incarnation ended before it was complete"


class CheckpointHistory:
    """The newest 500, and the number of all that have ended. The view calls it, with its lock."""

    def __init__(self) -> None:
        self._kept: dict[int, CheckpointInfo] = {}
        self.completed = 0
        self.failed = 0

    def note(self, info: CheckpointInfo) -> None:
        """One began or ended."""
        before = self._kept.pop(info.id, None)
        self._kept[info.id] = info
        while len(self._kept) > HISTORY:
            del self._kept[next(iter(self._kept))]
        if before is None or before.status != info.status:
            self.completed += info.status == CheckpointStatus.COMPLETED
            self.failed += info.status == CheckpointStatus.FAILED

    def end(self, restored: int | None, path: str | None) -> None:
        """Another incarnation begins, from the snapshot of that number in the folder ``path``. If that one was under
        way, it is complete: it has its record, and the restore has published its output. Every other one that was under
        way has failed, whatever its thread still waits for: the log takes nothing of an older incarnation.
        """
        for info in [each for each in self._kept.values() if each.status == CheckpointStatus.IN_PROGRESS]:
            if info.id == restored:
                self.note(info.model_copy(update={"status": CheckpointStatus.COMPLETED, "path": path}))
            else:
                self.note(info.model_copy(update={"status": CheckpointStatus.FAILED, "failure": _OVER}))

    @property
    def in_progress(self) -> int:
        """How many are under way."""
        return sum(info.status == CheckpointStatus.IN_PROGRESS for info in self._kept.values())

    def newest(self, kind: CheckpointKind) -> CheckpointInfo | None:
        """The newest that has completed."""
        done = [
            info
            for info in self._kept.values()
            if info.kind == kind and info.status == CheckpointStatus.COMPLETED
        ]
        return max(done, key=lambda info: info.id, default=None)

    def oldest_first(self) -> list[CheckpointInfo]:
        """All that are kept."""
        return sorted(self._kept.values(), key=lambda info: info.id)
