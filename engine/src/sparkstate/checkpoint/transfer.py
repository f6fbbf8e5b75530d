"""How far a transfer is: bytes done, and bytes to do."""

from __future__ import annotations

import threading


class Transfer:
    """Counted by many threads, read by any. ``total_bytes`` may be an estimate."""

    def __init__(self, total_bytes: int = 0) -> None:
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self._lock = threading.Lock()

    def add(self, size_bytes: int) -> None:
        """So many more are done."""
        with self._lock:
            self.done_bytes += size_bytes
