"""Which shared files a slot may refer to instead of uploading them again: pure bookkeeping, no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from sparkstate.handles import FileHandle, ShardHandle


class KnownFiles:
    """Shared files of the checkpoints that this slot took part in, by the checkpoint's id.

    Only the files of *one* checkpoint are a base for the next: the newest that the driver has committed,
    which it names with the trigger. Older ones may have been subsumed and their files deleted; newer ones may
    never become complete.
    """

    def __init__(self) -> None:
        self._files: dict[int, dict[str, FileHandle]] = {}
        self._complete: set[int] = set()

    def uploaded(self, checkpoint_id: int, shards: Iterable[ShardHandle]) -> None:
        """These files make up this slot's part of a checkpoint whose outcome is not known yet."""
        files = self._files.setdefault(checkpoint_id, {})
        for shard in shards:
            files.update(
                {handle.identity: handle for handle in shard.files if handle.shared and handle.identity}
            )

    def complete(self, checkpoint_id: int) -> None:
        """The driver says that this checkpoint is committed. Older ones are forgotten."""
        if checkpoint_id in self._files:
            self._complete.add(checkpoint_id)
            for older in [known for known in self._files if known < checkpoint_id]:
                self.abort(older)

    def abort(self, checkpoint_id: int) -> None:
        """This checkpoint will never be complete."""
        self._files.pop(checkpoint_id, None)
        self._complete.discard(checkpoint_id)

    def base(self, checkpoint_id: int | None) -> dict[str, FileHandle]:
        """Identity → handle of the files that may be referred to, given the base that the driver names."""
        if checkpoint_id is None or checkpoint_id not in self._complete:
            return {}
        return self._files[checkpoint_id]
