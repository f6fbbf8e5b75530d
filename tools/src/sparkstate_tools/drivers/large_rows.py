"""The rows of ``jobs/large_windows.py``: 1 KiB each that does not compress, and their windows. No Spark."""

from __future__ import annotations

import hashlib

NOISE_PARTS = 16
"""Of 64 bytes each."""
NOISE_BYTES = 64 * NOISE_PARTS
FILE_MS = 100
"""From the first row of a file to the first of the next."""
ROWS_WINDOW_MS = 10 * FILE_MS
GAP_MS = 60
"""Rows of a file lie at most 20 ms apart, so that a key has a session in each file."""
STAYS_OPEN_MS = 3_600_000


def noise(row_id: int) -> bytes:
    """The bytes of a row, as the job calculates them."""
    return b"".join(hashlib.sha512(f"{part}-{row_id}".encode()).digest() for part in range(NOISE_PARTS))
