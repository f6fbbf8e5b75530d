"""Does a store honour create-if-absent, and list what was created? All that fences drivers rests on these two, so they
are tried, not believed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from sparkstate import errors
from sparkstate.storage import creating, naming
from sparkstate.storage.objectstore import ObjectStore

FOLDER = "_probe"
_LEFT_MS = 24 * 3600 * 1000


def require_writable(store: ObjectStore, ids: Callable[[], str] = naming.random_id) -> None:
    """Create an object and delete it. Raises what the store raises."""
    key = f"{FOLDER}/{ids()}"
    try:
        store.put_if_absent(key, b"")
    finally:
        with contextlib.suppress(errors.StorageError):
            store.delete([key])


def require_conditional_create(store: ObjectStore, ids: Callable[[], str] = naming.random_id) -> None:
    """Create one object twice under a new name. Raises ``StorageError`` unless the second try is refused, and the
    object is listed. Also delete the trial of a killed process, after a day.
    """
    key = f"{FOLDER}/{ids()}"
    old: list[str] = []
    try:
        # Read back if it is called taken: a retry may have met its own first try, or nothing is there at all, and then
        # the second create would rightly succeed.
        creating.create_or_read(store, key, b"first")
        found = {info.key: info.modified_ms for info in store.list(f"{FOLDER}/")}
        if key not in found:
            raise errors.StorageError(
                f"{store.url}/{key} was created, and a listing after that does not show it; so a driver could "
                "miss that the log was compacted. Use a storage whose listings are consistent, as those of Amazon "
                "S3, MinIO, Ceph, versitygw and local folders are"
            )
        old = [other for other, at_ms in found.items() if at_ms < found[key] - _LEFT_MS]
        try:
            store.put_if_absent(key, b"second")
        except errors.AlreadyExists:
            return
        raise errors.StorageError(
            f"{store.url} overwrote an object that had to be created only if absent (If-None-Match: *), so "
            "two drivers "
            "of one job could both commit. Use a storage with conditional writes: Amazon S3, MinIO, Ceph "
            "(Squid or "
            "newer), versitygw, or a local folder"
        )
    finally:
        with contextlib.suppress(errors.StorageError):
            store.delete([key, *old])
