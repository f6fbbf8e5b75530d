"""The event times by which states expire in a call that has many rows, or many timers.

Theory. A function on batches reads and writes a state once for all rows of a key. The access counts as one by each of
these rows, in their order, as if a function on records had been called for them. A read makes a stamp later and never
earlier, so the greatest event time of the rows counts. A write sets the stamp, so the event time of the last row
counts. So stamps do not depend on where the engine cuts its input into batches, and they are those that a function on
records leaves behind.

The rule has one gap: where reading counts, a read that follows a write in the same call also counts for the rows before
the last one. If these have later event times, the entry lives longer than with a function on records, and never less.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.state.known_keys import Numbers

UNTIMED = MIN_WATERMARK
"""Stands for a row without event time: the watermark is later, and counts."""


class KeyTimes:
    """Of one call: ``stamps`` has an entry for each row, and ``codes`` the place of its key in ``numbers``. Nothing is
    computed before a state that expires in event time is used."""

    def __init__(self, numbers: Numbers, codes: npt.NDArray[np.int32], stamps: pa.Array) -> None:
        self._numbers = numbers
        self._codes = codes
        self._stamps = stamps

    @cached_property
    def of_rows(self) -> npt.NDArray[np.int64]:
        """The event time of each row, ms."""
        return self._stamps.fill_null(UNTIMED).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def of_reads(self) -> dict[int, int]:
        """The time that counts for a read, by the number of the key: the greatest of its rows."""
        greatest = np.full(len(self._numbers), UNTIMED, np.int64)
        np.maximum.at(greatest, self._codes, self.of_rows)
        return self._by_number(greatest)

    @cached_property
    def of_writes(self) -> dict[int, int]:
        """The time that counts for a write, by the number of the key: that of its last row."""
        last = np.full(len(self._numbers), UNTIMED, np.int64)
        last[self._codes] = self.of_rows  # of several writes to one place NumPy keeps the last
        return self._by_number(last)

    def _by_number(self, times: npt.NDArray[np.int64]) -> dict[int, int]:
        return dict(zip(self._numbers.tolist(), times.tolist(), strict=True))
