"""Windows cut into slices: the slice of a time, the windows of a slice. Arrays in, arrays out; all in ms.

Theory. Windows of ``size`` start every ``slide``. Their starts and ends cut time into slices that no window cuts
through; with a width of gcd(size, slide), all slices are of one width. A row updates the one slice that it lies in,
however many windows overlap there, and a window is the merge of its slices.

A window ends when the watermark reaches its end - 1, its greatest event time. It is over when the watermark reaches
end - 1 + lateness: rows for it come too late then. A slice is needed until the last of its windows is over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparkstate import errors

Times: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

MOST_SLICES = 100_000
"""Of a window: each is read when a window ends."""
FARTHEST_TIME = 9_000_000_000_000_000
"""Times beyond it, the year 287,000, do not fit in a timestamp of microseconds."""


@dataclass(frozen=True)
class Slices:
    """``offset`` moves all windows; ``lateness`` is for how long a window still takes rows after its end."""

    size: int
    slide: int
    offset: int = 0
    lateness: int = 0

    def __post_init__(self) -> None:
        for name, value, least in (
            ("size", self.size, 1),
            ("slide", self.slide, 1),
            ("lateness", self.lateness, 0),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value < FARTHEST_TIME:
                raise errors.SpecInvalid(
                    f"a window's {name} is {value!r} ms; it must be a whole number, at least {least} and below "
                    f"{FARTHEST_TIME}"
                )
        if (
            not isinstance(self.offset, int)
            or isinstance(self.offset, bool)
            or abs(self.offset) >= self.slide
        ):
            raise errors.SpecInvalid(
                f"a window's offset is {self.offset!r} ms; it must be a whole number nearer to 0 than the slide, "
                f"{self.slide} ms"
            )
        if self.per_window > MOST_SLICES:
            raise errors.SpecInvalid(
                f"windows of {self.size} ms that start every {self.slide} ms have {self.per_window} slices of "
                f"{self.width} ms; at most {MOST_SLICES} are possible: choose a slide that divides the size, or a "
                "longer one"
            )

    @property
    def width(self) -> int:
        """Of a slice."""
        return math.gcd(self.size, self.slide)

    @property
    def per_window(self) -> int:
        """Slices of a window."""
        return self.size // self.width

    @property
    def per_slide(self) -> int:
        """Slices of a window that the next one does not have."""
        return min(self.slide, self.size) // self.width

    @property
    def per_size(self) -> int:
        """Windows that begin within a window, itself included."""
        return -(-self.per_window // self.per_slide)

    def of(self, times: Times) -> Times:
        """The start of the slice of each time."""
        return (times - self.offset) // self.width * self.width + self.offset

    def last_ends(self, slices: Times) -> Times:
        """The end of the last window that has the slice, or could have it: see ``has_window``."""
        return (slices - self.offset) // self.slide * self.slide + (self.offset + self.size)

    def has_window(self, slices: Times) -> Flags:
        """Whether any window has the slice. Windows that are shorter than their slide leave gaps."""
        found: Flags = self.last_ends(slices) > slices
        return found

    def next_ends(self, times: Times) -> Times:
        """The least end of a window that is not before the time."""
        first = self.offset + self.size
        return -(-(times - first) // self.slide) * self.slide + first

    def first_ends(self, slices: Times) -> Times:
        """The end of the first window that has the slice."""
        return self.next_ends(slices + self.width)

    def are_ends(self, times: Times) -> Flags:
        """Whether a window ends there."""
        found: Flags = (times - self.offset - self.size) % self.slide == 0
        return found

    def of_windows(self, ends: Times) -> Times:
        """The slices of each window: one row for each window, its slices in order."""
        return ends[:, None] - self.size + np.arange(self.per_window, dtype=np.int64) * self.width

    def are_over(self, ends: Times, watermark: int) -> Flags:
        """Whether windows take no rows any more."""
        found: Flags = ends - 1 + self.lateness <= watermark
        return found

    def are_late(self, times: Times, slices: Times, watermark: int) -> Flags:
        """Whether rows come too late, by their times and slices: all windows that they lie in are over. A row in a gap
        lies in none, and is late by its own time, as in Flink."""
        ends = self.last_ends(slices)
        if self.slide > self.size:
            ends = np.where(self.has_window(slices), ends, times + 1)
        return self.are_over(ends, watermark)
