"""A store with values that expire, filled and emptied by hand."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sparkstate.backends import loader
from sparkstate.backends.base import StateKind, TableChanges, TableSpec
from sparkstate.backends.expiring import SweepPace
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.expiring import ExpiringType, TimeToLive
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

SPEC = TableSpec(
    "op", "values", StateKind.VALUE, Types.LONG(), ExpiringType(Types.STRING(), TimeToLive(1000))
)


class Filled:
    """``folder`` takes the snapshots."""

    def __init__(self, store: Any, folder: Path) -> None:
        self.store = store
        self._folder = folder
        self._numbers = itertools.count()

    def stored_bytes(self) -> int:
        """Of RocksDB's files after a checkpoint, or of the HashMap backend's."""
        size, folder = 0, self._folder / str(next(self._numbers))
        folder.mkdir()
        taken = self.store.prepare_snapshot(1, folder, False)
        try:
            size = sum(
                file.size for file in taken.files() if not file.name.startswith(("MANIFEST", "CURRENT"))
            )
        finally:
            taken.release()
        return size

    def expire_all(self) -> None:
        """Sweep until nothing is left to remove."""
        while self.store.expire(SPEC, 0, SweepPace(0.3, 1000, 100_000)):
            pass
        self.store.expire(SPEC, 0, SweepPace(1.0, 1000, 100_000))

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Go on with empty epochs and checkpoints until it holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"still {self.stored_bytes()} bytes after {timeout_s} s"
            time.sleep(0.2)
            self.store.expire(SPEC, 0, SweepPace(1.0, 1000, 100_000))


@contextmanager
def filled(backend: Any, folder: Path, rows: int) -> Iterator[Filled]:
    """A store with so many values of 200 bytes, stamped at 0."""
    settings = StateBackendSettings(type=backend, managed_memory_bytes=16 * MIB)
    factory = loader.create_store_factory(settings, folder / "factory")
    store = factory.create(0, KeyGroupRange(0, 127), folder / "store")
    rng = random.Random(5)
    try:
        for start in range(0, rows, 1000):
            values = {key: (0, rng.randbytes(100).hex()) for key in range(start, start + 1000)}
            store.commit([TableChanges(SPEC, values=values)], {key: key % 128 for key in values})
        (folder / "snapshots").mkdir()
        yield Filled(store, folder / "snapshots")
    finally:
        store.close()
        factory.close()
