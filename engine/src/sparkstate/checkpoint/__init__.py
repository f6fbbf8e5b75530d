"""Checkpoints and savepoints: coordination, transfer, metadata, commit, retention, restore."""

from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.known import KnownFiles
from sparkstate.checkpoint.metadata import CheckpointMetadata, Committable
from sparkstate.checkpoint.restore import Restored, RestorePlan, carry_out, decide_restore
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
    "Restored",
    "Savepoints",
    "UploadTarget",
    "Uploader",
    "carry_out",
    "decide_restore",
    "open_snapshot",
]
