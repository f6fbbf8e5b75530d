"""The checkpoints and savepoints that a driver has begun, with what became of each, for the control endpoint."""

from __future__ import annotations

from sparkstate.control.documents import CheckpointInfo, CheckpointKind, CheckpointStatus

HISTORY = 500
_OVER = "its incarnation ended before it was complete"


class CheckpointHistory:
    """The newest 500, and the number of all that have ended. The view calls it, with its lock.

    However many came later, those under way stay, and of each kind the newest that has completed: a savepoint is rare
    among checkpoints, and the age of the last checkpoint matters most after hours in which every one failed.
    """

    def __init__(self) -> None:
        self._kept: dict[int, CheckpointInfo] = {}
        self._newest: dict[CheckpointKind, CheckpointInfo] = {}
        self.completed = 0
        self.failed = 0

    def note(self, info: CheckpointInfo) -> None:
        """One began or ended."""
        before = self._kept.pop(info.id, None)
        self._kept[info.id] = info
        newest = self._newest.get(info.kind)
        if info.status == CheckpointStatus.COMPLETED and (newest is None or newest.id <= info.id):
            self._newest[info.kind] = info
        if len(self._kept) > HISTORY:
            self._forget_the_oldest()
        if before is None or before.status != info.status:
            self.completed += info.status == CheckpointStatus.COMPLETED
            self.failed += info.status == CheckpointStatus.FAILED

    def _forget_the_oldest(self) -> None:
        stay = {info.id for info in self._newest.values()}
        for info in self._kept.values():
            if info.status != CheckpointStatus.IN_PROGRESS and info.id not in stay:
                del self._kept[info.id]
                return

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
        return self._newest.get(kind)

    def oldest_first(self) -> list[CheckpointInfo]:
        """All that are kept."""
        return sorted(self._kept.values(), key=lambda info: info.id)
