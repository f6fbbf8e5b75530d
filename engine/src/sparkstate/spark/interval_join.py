"""``keyed(a, …).interval_join(keyed(b, …)).between(lower, upper).process(function, …)``, with the names of Flink."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pyspark.sql import types as T

from sparkstate import durations
from sparkstate.functions import OutputTag
from sparkstate.keyed_functions import join_operation
from sparkstate.keyed_functions.interval_join import ProcessJoinFunction
from sparkstate.keyed_functions.join_operation import JoinOperation
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
        return BoundedJoin(self._connected, self._left, self._right, join_operation.between(lower, upper))


@dataclass(frozen=True)
class BoundedJoin(Generic[P]):
    """An interval join that lacks its function."""

    _connected: ConnectedStreams[P]
    _left: T.StructType
    _right: T.StructType
    _operation: JoinOperation

    def lower_bound_exclusive(self) -> BoundedJoin[P]:
        """Without the right rows at the lower bound itself."""
        return replace(self, _operation=self._operation.lower_bound_exclusive())

    def upper_bound_exclusive(self) -> BoundedJoin[P]:
        """Without the right rows at the upper bound itself."""
        return replace(self, _operation=self._operation.upper_bound_exclusive())

    def side_output_left_late_data(self, tag: OutputTag) -> BoundedJoin[P]:
        """Send left rows that come too late to this side output; without one they are dropped."""
        return replace(self, _operation=self._operation.side_output_left_late_data(tag))

    def side_output_right_late_data(self, tag: OutputTag) -> BoundedJoin[P]:
        """The same for right rows."""
        return replace(self, _operation=self._operation.side_output_right_late_data(tag))

    def process(self, function: ProcessJoinFunction, *, uid: str, output_schema: str) -> P:
        """Call ``function`` for each pair. The output's rows have the later of the pair's two times. Both streams need
        event time. Rows wait in keyed state until the watermark has passed the times of all their partners."""
        operation = self._operation
        joined = operation.function(
            function,
            _row_type(self._left, uid),
            _row_type(self._right, uid),
            f"process({function!r}) of {uid!r}",
        )
        late = (operation.left_late, operation.right_late)
        return self._connected.with_own_lateness(joined, uid, output_schema, late)


def _row_type(struct: T.StructType, uid: str) -> TypeInformation:
    where = f"interval_join of {uid!r}"
    return Types.ROW_NAMED(struct.names, [row_types.state_type(field, where) for field in struct.fields])
