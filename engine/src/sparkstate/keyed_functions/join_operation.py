"""An interval join as a job declares it: bounds, and where late rows go. ``between`` begins, ``function`` ends it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from sparkstate import durations, errors
from sparkstate.functions import OutputTag, require_tag
from sparkstate.keyed_functions.interval_join import IntervalJoin, JoinSide, ProcessJoinFunction
from sparkstate.serde.typeinfo import TypeInformation

_FARTHEST_MS: Final = 2**62
"""A timer is set at the time of a row and a bound, and has to fit in 64 bits. These are 146 million years."""


def between(lower: durations.Duration, upper: durations.Duration) -> JoinOperation:
    """Join a left row at time *t* with right rows from *t + lower* to *t + upper*, both included."""
    least = durations.milliseconds(lower, "between(lower)", at_most=_FARTHEST_MS)
    most = durations.milliseconds(upper, "between(upper)", at_most=_FARTHEST_MS)
    if least > most:
        raise errors.SpecInvalid(
            f"interval_join(…).between({lower!r}, {upper!r}): the lower bound lies above the upper one, and must not; "
            "swap them"
        )
    return JoinOperation(least, most)


@dataclass(frozen=True)
class JoinOperation:
    """Each method but the last returns another object."""

    least: int
    """The smallest distance from a left row to a right one, ms."""
    most: int
    """The largest."""
    left_late: OutputTag | None = None
    """Where late rows go; None: nowhere."""
    right_late: OutputTag | None = None

    def lower_bound_exclusive(self) -> Self:
        """Without the right rows at the lower bound itself."""
        return replace(self, least=self.least + 1)

    def upper_bound_exclusive(self) -> Self:
        """Without the right rows at the upper bound itself."""
        return replace(self, most=self.most - 1)

    def side_output_left_late_data(self, tag: OutputTag) -> Self:
        """Send left rows that come too late to this side output; without one they are dropped."""
        return replace(self, left_late=require_tag(tag, "side_output_left_late_data(…)"))

    def side_output_right_late_data(self, tag: OutputTag) -> Self:
        """The same for right rows."""
        return replace(self, right_late=require_tag(tag, "side_output_right_late_data(…)"))

    def function(
        self, given: ProcessJoinFunction, left: TypeInformation, right: TypeInformation, where: str
    ) -> IntervalJoin:
        """The function of the operator; ``left`` and ``right`` are the types of the rows that wait in state. Raises
        ``SpecInvalid``, beginning with ``where``, unless the author's is a ``ProcessJoinFunction``."""
        if not isinstance(given, ProcessJoinFunction):
            raise errors.SpecInvalid(
                f"{where} is not a ProcessJoinFunction object; "
                + ("create an instance of the class" if isinstance(given, type) else "pass one")
            )
        return IntervalJoin(
            given,
            JoinSide(row_type=left, late=self.left_late, least=self.least, most=self.most),
            JoinSide(row_type=right, late=self.right_late, least=-self.most, most=-self.least),
        )
