"""Checkpoints and savepoints: when one begins, where its bytes go, what commits it, and what a restart begins from.

The room works on shard snapshots, file handles, a lineage's log and object stores. It knows neither slots nor Spark nor
sinks: the driver tells it what they answered. ``store`` holds the order of writes on which everything rests: data,
``_metadata``, log record; and for deletions tombstone, then objects. ``coordinator`` and ``known_files`` do no I/O.
"""

from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.known_files import KnownFiles
from sparkstate.checkpoint.metadata import CheckpointMetadata, Committable
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan, carry_out, decide_restore
from sparkstate.checkpoint.savepoint import Savepoints, open_snapshot
from sparkstate.checkpoint.store import CompletedCheckpoint, CompletedCheckpointStore
from sparkstate.checkpoint.uploader import Uploader, UploadTarget

__all__ = [
    "CheckpointMetadata",
    "Committable",
    "CompletedCheckpoint",
    "CompletedCheckpointStore",
    "Downloader",
    "KnownFiles",
    "RestorePlan",
    "RestoredSnapshot",
    "Savepoints",
    "UploadTarget",
    "Uploader",
    "carry_out",
    "decide_restore",
    "open_snapshot",
]
