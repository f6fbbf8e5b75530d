"""Snapshots that travel to the driver inside their handles: no store is written (RFC 0045).

For checkpoints in the coordinator's memory. Every file is inline, and each snapshot is whole: it refers to no earlier
one. Shards come in the canonical form, whose rows tell how large each state is.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Mapping

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.backends.base import ShardSnapshot, StreamedSnapshot
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.checkpoint.uploader import UploadTarget
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.storage.arriving import data_checksum


class InlineUploader:
    """As :class:`Uploader`, for a slot whose states may have ``max_state_bytes`` each."""

    def __init__(self, max_state_bytes: int) -> None:
        self._max = max_state_bytes

    def upload(
        self,
        target: UploadTarget,
        snapshots: Mapping[int, ShardSnapshot],
        base: Mapping[str, FileHandle] | None = None,
        given_up: threading.Event | None = None,
        transfer: Transfer | None = None,
    ) -> list[ShardHandle]:
        """Handles that hold the snapshots, in order of shards. ``target`` and ``base`` name nothing here.

        Raises ``StorageError`` for a state that is too large, and when nobody wants the snapshot any more.
        """
        del target, base
        over, counted = given_up or threading.Event(), transfer or Transfer()
        states: Counter[tuple[str, str]] = Counter()
        handles = []
        for shard, snapshot in sorted(snapshots.items()):
            files = self._files(snapshot, states, over)
            size = sum(file.size for file in files)
            counted.add(size)
            handles.append(
                ShardHandle(shard=shard, format=snapshot.format, files=files, state_size=size, uploaded=size)
            )
        return handles

    def put_bytes(self, target: UploadTarget, name: str, data: bytes) -> FileHandle:
        """A few bytes, such as a slot's operator state. Raises ``StorageError`` if they are too many."""
        del target
        self._require_small(name, len(data))
        return _inline(name, data)

    def close(self) -> None:
        """Nothing is open."""

    def _files(
        self, snapshot: ShardSnapshot, states: Counter[tuple[str, str]], over: threading.Event
    ) -> tuple[FileHandle, ...]:
        if isinstance(snapshot, StreamedSnapshot):
            found = []
            for stream in snapshot.streams():
                data = bytearray()
                with contextlib.closing(stream.chunks()) as chunks:
                    for chunk in chunks:
                        if over.is_set():
                            raise errors.StorageError("the snapshot was given up: it took too long")
                        data += chunk
                        if len(data) > self._max:  # perhaps of several states: look before more is collected
                            self._require_states(states + Counter(canonical.sizes(data)))
                found.append(_inline(stream.name, bytes(data)))
        else:
            found = [_inline(file.name, file.path.read_bytes()) for file in snapshot.files()]
        for file in found:
            states.update(canonical.sizes(file.inline or b""))
        self._require_states(states)
        return tuple(found)

    def _require_states(self, states: Counter[tuple[str, str]]) -> None:
        for (uid, name), size in states.most_common(1):
            self._require_small(f"{uid}/{name}", size)

    def _require_small(self, state: str, size: int) -> None:
        if size > self._max:
            raise errors.StorageError(
                f"the state {state} of this slot has at least {size} bytes, and checkpoints in the driver's memory "
                f"take at most {self._max} of a state (spec.checkpointing.maxStateSize); keep checkpoints in a folder "
                "or on S3 instead: spec.checkpointing.storage, FileSystemCheckpointStorage"
            )


def _inline(name: str, data: bytes) -> FileHandle:
    return FileHandle(name=name, size=len(data), checksum=data_checksum(data), inline=data)
