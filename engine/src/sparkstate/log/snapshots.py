"""Hints that spare readers the whole log: the folded state at some entry, in objects of their own.

They are derived from the log alone, so that a missing or damaged one only costs time.
"""

from __future__ import annotations

import contextlib

import msgspec

from sparkstate import errors
from sparkstate.log import framing
from sparkstate.log.state import LogState
from sparkstate.storage.objectstore import ObjectStore

MAGIC = b"SSLS"
VERSION = 1
KEEP = 2

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(LogState)


def _prefix(folder: str) -> str:
    return f"{folder}/_checkpoint-"


def write(store: ObjectStore, folder: str, state: LogState) -> None:
    """Store ``state`` as a hint and delete all but the newest ``KEEP``."""
    data = framing.frame(MAGIC, VERSION, _ENCODER.encode(state))
    with contextlib.suppress(errors.AlreadyExists):
        store.put_if_absent(f"{_prefix(folder)}{state.last_number:012d}", data)
    keys = [info.key for info in store.list(_prefix(folder))]
    store.delete(keys[:-KEEP])


def newest(store: ObjectStore, folder: str) -> LogState | None:
    """The newest hint that can be read, or None. Raises ``StorageUnavailable`` only."""
    for info in reversed(list(store.list(_prefix(folder)))):
        try:
            data = store.get(info.key)
            payload = framing.unframe(MAGIC, VERSION, data, info.key)
            return framing.parse(_DECODER, payload, info.key)
        except errors.StorageUnavailable:
            raise
        except errors.StorageError:
            # Deleted meanwhile, damaged, or of another version: an older one, or the whole log, will do.
            continue
    return None
