"""The names of slots' folders, of living slots and of those that have left."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SLOTS: Final = "slots"
"""Of a driver's or executor's working directory: the base of its slots' folders."""
STORES: Final = "db"
"""Of a slot's folder: the folders of its shards' stores."""
DOWNLOADS: Final = "download"
"""Of a slot's folder: what a restore finds or downloads, by shard, until the store has it."""
LOCAL_COPY: Final = "kept"
"""Of a slot's folder: links to the files of completed checkpoints, by checkpoint and shard."""
LEFT: Final = ".left"
"""The end of the name of a slot's folder once the slot is gone."""
LOG: Final = re.compile(r"slot-(\d+)-(\d+)\.log(\.1)?")
"""The name of a slot's log beside the folders, with the slot's number and its incarnation (``slots.logs``)."""


def shard_folder(directory: Path, shard: int) -> Path:
    """Where a shard's files are, in a slot's folder of stores, of downloads, or of one checkpoint's links."""
    return directory / f"shard-{shard:05d}"


def is_slot(folder: Path) -> bool:
    """Whether this is the folder of a slot that has not left."""
    incarnation, _, slot = folder.name.partition("-")
    return incarnation.isdigit() and slot.isdigit() and folder.is_dir()


def is_log(name: str) -> bool:
    """Whether a file of that name is the log of a slot that was told what it is."""
    return LOG.fullmatch(name) is not None
