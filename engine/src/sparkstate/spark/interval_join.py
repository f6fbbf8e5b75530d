"""``keyed(a, …).interval_join(keyed(b, …)).between(lower, upper).process(function, …)``, with the names of Flink."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pyspark.sql import types as T

from sparkstate import durations, errors
from sparkstate.functions import OutputTag
from sparkstate.keyed_functions.interval_join import IntervalJoin, JoinSide, ProcessJoinFunction
from sparkstate.serde.types import TypeInformation, Types
from sparkstate.spark import row_types
from sparkstate.spark.connected import ConnectedStreams

P = TypeVar("P")


@dataclass(frozen=True)
class IntervalJoinedStreams(Generic[P]):
    """Two streams whose bounds are still to be named."""

    _connected: ConnectedStreams[P]
    _left: T.StructType
    _right: T.StructType

    def between(self, lower: durations.Duration, upper: durations.Duration) -> BoundedJoin[P]:
        """Join a left row at time *t* with right rows from *t + lower* to *t + upper*, both included. A bound is a
        duration: ``Time.minutes(-5)``, ``"-5 minutes"``, a ``timedelta``, or milliseconds."""
        least = durations.milliseconds(lower, "between(lower)")
        most = durations.milliseconds(upper, "between(upper)")
        if least > most:
            raise errors.SpecInvalid(
                f"interval_join(…).between({lower!r}, {upper!r}): the lower bound lies above the upper one; swap them"
            )
        return BoundedJoin(self._connected, self._left, self._right, least, most)


@dataclass(frozen=True)
class BoundedJoin(Generic[P]):
    """An interval join that lacks its function."""

    _connected: ConnectedStreams[P]
    _left: T.StructType
    _right: T.StructType
    _least: int
    _most: int
    _left_late: OutputTag | None = None
    _right_late: OutputTag | None = None

    def lower_bound_exclusive(self) -> BoundedJoin[P]:
        """Without the right rows at the lower bound itself."""
        return replace(self, _least=self._least + 1)

    def upper_bound_exclusive(self) -> BoundedJoin[P]:
        """Without the right rows at the upper bound itself."""
        return replace(self, _most=self._most - 1)

    def side_output_left_late_data(self, tag: OutputTag) -> BoundedJoin[P]:
        """Send left rows that come too late to this side output; without one they are dropped."""
        return replace(self, _left_late=tag)

    def side_output_right_late_data(self, tag: OutputTag) -> BoundedJoin[P]:
        """The same for right rows."""
        return replace(self, _right_late=tag)

    def process(self, function: ProcessJoinFunction, *, uid: str, output_schema: str) -> P:
        """Call ``function`` for each pair. The output's rows have the later of the pair's two times. Both streams need
        event time. Rows wait in keyed state until the watermark has passed the times of all their partners."""
        if not isinstance(function, ProcessJoinFunction):
            raise errors.SpecInvalid(
                f"process({function!r}) of {uid!r} is not a ProcessJoinFunction object"
                + ("; create an instance of the class" if isinstance(function, type) else "")
            )
        joined = IntervalJoin(
            function,
            JoinSide(
                row_type=_row_type(self._left, uid),
                late=self._left_late,
                least=self._least,
                most=self._most,
            ),
            JoinSide(
                row_type=_row_type(self._right, uid),
                late=self._right_late,
                least=-self._most,
                most=-self._least,
            ),
        )
        return self._connected.with_own_lateness(
            joined, uid, output_schema, (self._left_late, self._right_late)
        )


def _row_type(struct: T.StructType, uid: str) -> TypeInformation:
    where = f"interval_join of {uid!r}"
    return Types.ROW_NAMED(struct.names, [row_types.state_type(field, where) for field in struct.fields])
