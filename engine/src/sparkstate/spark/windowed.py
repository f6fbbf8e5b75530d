"""The API of windows: ``keyed(df, keys).window(assigner).reduce(fn, uid=…, output_schema=…)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from pyspark.sql import Column
from pyspark.sql import types as T

from sparkstate import durations, errors
from sparkstate.functions import AggregateFunction, OutputTag, ReduceFunction
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.spark import row_types
from sparkstate.spark.combining import Phases
from sparkstate.windows.evictors import Evictor
from sparkstate.windows.functions import ProcessWindowFunction, WindowFunction
from sparkstate.windows.operation import WindowOperation
from sparkstate.windows.trigger import Trigger

P = TypeVar("P")
"""A processed stream."""
OnError = Literal["fail", "side-output"]


@dataclass(frozen=True)
class WindowedStream(Generic[P]):
    """A keyed stream in windows. ``reduce``, ``aggregate``, ``process`` or ``apply`` puts an operator on it.

    Names and results are PyFlink's. Those four take what ``KeyedStream.process`` takes: ``uid``, ``output_schema`` (the
    columns of what the function returns or yields), ``on_error`` with ``error_output``, and ``sort_by_event_time``.
    """

    operation: WindowOperation
    """The windows, trigger, evictor and lateness so far."""
    rows: Callable[[], T.StructType]
    """Gives the columns of the stream."""
    declare: Callable[..., P]
    """Puts a function on the keyed stream."""
    declare_aggregates: Callable[[WindowOperation, Sequence[Column | Mapping[str, str]], str, Phases], P]
    """Puts built-in aggregates on the keyed stream."""

    def trigger(self, trigger: Trigger) -> WindowedStream[P]:
        """Fire by this trigger instead of the assigner's own."""
        return replace(self, operation=self.operation.trigger(trigger))

    def evictor(self, evictor: Evictor) -> WindowedStream[P]:
        """Remove rows before or after a window fires. The window keeps all of its rows then."""
        return replace(self, operation=self.operation.evictor(evictor))

    def allowed_lateness(self, time_ms: durations.Duration) -> WindowedStream[P]:
        """Keep windows for so long after their end, in event time: a late row of theirs makes them fire again.
        Milliseconds, or a length such as ``"10 minutes"``; default 0."""
        return replace(self, operation=self.operation.allowed_lateness(time_ms))

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream[P]:
        """Send rows whose windows have all ended to this side output. Without it they are counted and dropped."""
        return replace(self, operation=self.operation.side_output_late_data(output_tag))

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: ProcessWindowFunction | WindowFunction | None = None,
        *,
        uid: str,
        output_schema: str,
        value_type: TypeInformation | None = None,
        on_error: OnError = "fail",
        error_output: OutputTag | None = None,
        sort_by_event_time: bool = False,
    ) -> P:
        """Fold the rows of a window into one, as they come. ``window_function`` is given that one when the window
        fires; without it, it is put out. ``value_type`` is the type of a row (default: that of the stream's rows)."""
        made = self.operation.reduce(
            reduce_function,
            window_function,
            value_type=self._row_type(value_type, f"reduce(value_type=…) of {uid!r}"),
        )
        return self._declare(made, uid, output_schema, on_error, error_output, sort_by_event_time)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: ProcessWindowFunction | WindowFunction | None = None,
        *,
        uid: str,
        output_schema: str,
        accumulator_type: TypeInformation,
        element_type: TypeInformation | None = None,
        on_error: OnError = "fail",
        error_output: OutputTag | None = None,
        sort_by_event_time: bool = False,
    ) -> P:
        """Fold the rows of a window into an accumulator, as they come. ``window_function`` is given its result when
        the window fires; without it, the result is put out. ``accumulator_type`` is the type of the accumulator;
        ``element_type`` that of a row, where an evictor keeps them (default: that of the stream's rows)."""
        if self.operation.keeps_rows:
            element_type = self._row_type(element_type, f"aggregate(element_type=…) of {uid!r}")
        made = self.operation.aggregate(
            aggregate_function,
            window_function,
            accumulator_type=accumulator_type,
            element_type=element_type,
        )
        return self._declare(made, uid, output_schema, on_error, error_output, sort_by_event_time)

    def process(
        self,
        process_window_function: ProcessWindowFunction,
        *,
        uid: str,
        output_schema: str,
        element_type: TypeInformation | None = None,
        on_error: OnError = "fail",
        error_output: OutputTag | None = None,
        sort_by_event_time: bool = False,
    ) -> P:
        """Keep the rows of a window, and call the function with all of them when it fires. ``element_type`` is the type
        of a row (default: that of the stream's rows)."""
        made = self.operation.process(
            process_window_function,
            element_type=self._row_type(element_type, f"process(element_type=…) of {uid!r}"),
        )
        return self._declare(made, uid, output_schema, on_error, error_output, sort_by_event_time)

    def apply(
        self,
        window_function: WindowFunction,
        *,
        uid: str,
        output_schema: str,
        element_type: TypeInformation | None = None,
        on_error: OnError = "fail",
        error_output: OutputTag | None = None,
        sort_by_event_time: bool = False,
    ) -> P:
        """As :meth:`process`, with a ``WindowFunction``."""
        made = self.operation.apply(
            window_function,
            element_type=self._row_type(element_type, f"apply(element_type=…) of {uid!r}"),
        )
        return self._declare(made, uid, output_schema, on_error, error_output, sort_by_event_time)

    def agg(self, *exprs: Column | Mapping[str, str], uid: str, phases: Phases = "auto") -> P:
        """Built-in aggregates on Arrow batches: ``agg(F.sum("v").alias("total"), F.count("*"), uid="sums")``, or
        ``agg({"v": "sum"}, uid="sums")``. Names and results are PySpark's: ``sum``, ``count``, ``min``, ``max``,
        ``avg``, ``stddev``, ``stddev_pop``, ``variance``, ``var_pop`` and ``approx_count_distinct``; and ``first`` and
        ``last``, which go by event time here.

        The output has the key columns, ``window_start`` and ``window_end`` (timestamps), and a column for each
        aggregate. It needs windows of event time, of a fixed length or sessions with a fixed gap. There is no trigger
        and no evictor.

        ``phases``: with ``"two"``, Spark adds up the rows of a key and slice in each epoch, and slots get one row for
        them; with ``"one"``, slots get all rows; ``"auto"`` adds up where an epoch has many rows and at most half as
        many keys and slices, and where the aggregates allow it."""
        return self.declare_aggregates(self.operation, exprs, uid, phases)

    def _row_type(self, given: TypeInformation | None, argument: str) -> TypeInformation:
        return row_types.row_type(self.rows(), argument) if given is None else given

    def _declare(
        self,
        function: object,
        uid: str,
        output_schema: str,
        on_error: OnError,
        error_output: OutputTag | None,
        sort_by_event_time: bool,
    ) -> P:
        return self.declare(
            function,
            uid=uid,
            output_schema=output_schema,
            on_error=on_error,
            error_output=error_output,
            late_output=self.operation.late_tag,
            sort_by_event_time=sort_by_event_time,
        )


def check_event_time(operation: WindowOperation, has_event_time: bool) -> None:
    """Windows of event time need a stream that has one."""
    if operation.assigner.is_event_time() and not has_event_time:
        raise errors.SpecInvalid(
            f"window({operation.assigner!r}) needs an event time: give the DataFrame one by "
            "withWatermark(column, delay), or say keyed(…, event_time=…, delay=…)"
        )
