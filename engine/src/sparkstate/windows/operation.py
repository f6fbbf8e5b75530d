"""Puts a window operator together from what a job's author chooses, and refuses what cannot work.

``over(assigner)`` begins; ``reduce``, ``aggregate``, ``process`` and ``apply`` end it with a ``KeyedProcessFunction``,
which a keyed stream runs and ``sparkstate.testing.KeyedProcessHarness`` drives without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from sparkstate import durations, errors
from sparkstate.functions import OutputTag, require_tag
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state.folding import AggregateFunction, ReduceFunction
from sparkstate.windows import contents
from sparkstate.windows.assigner import MergingWindowAssigner, WindowAssigner
from sparkstate.windows.evictors import Evictor
from sparkstate.windows.fixed_operator import FixedWindowOperator
from sparkstate.windows.functions import ProcessWindowFunction, WindowFunction
from sparkstate.windows.merging_operator import MergingWindowOperator
from sparkstate.windows.session_windows import EventTimeSessionWindows
from sparkstate.windows.time_windows import (
    FixedWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from sparkstate.windows.trigger import Trigger
from sparkstate.windows.window_operator import WindowOperator

AnyFunction = ProcessWindowFunction | WindowFunction


def over(assigner: WindowAssigner) -> WindowOperation:
    """Windows of this assigner, with its own trigger, no evictor, and no lateness."""
    if not isinstance(assigner, WindowAssigner):
        hint = "; create an instance of the class" if isinstance(assigner, type) else ""
        raise errors.SpecInvalid(
            f"window({assigner!r}): pass a WindowAssigner, such as TumblingEventTimeWindows.of(Time.minutes(5)){hint}"
        )
    return WindowOperation(assigner)


@dataclass(frozen=True)
class WindowOperation:
    """Windows as a job declares them. Each method returns another object."""

    assigner: WindowAssigner
    chosen_trigger: Trigger | None = None
    """None: the assigner's own."""
    chosen_evictor: Evictor | None = None
    lateness_ms: int = 0
    late_tag: OutputTag | None = None

    def trigger(self, trigger: Trigger) -> Self:
        """With this trigger instead of the assigner's own."""
        if not isinstance(trigger, Trigger):
            raise errors.SpecInvalid(
                f"trigger({trigger!r}): pass a Trigger object, such as CountTrigger.of(100)"
            )
        if isinstance(self.assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise errors.SpecInvalid(
                f"trigger({trigger!r}): the windows of {self.assigner!r} merge, and this trigger cannot; define "
                "on_merge, and let can_merge return True"
            )
        return replace(self, chosen_trigger=trigger)

    def evictor(self, evictor: Evictor) -> Self:
        """With this evictor. All rows of a window are kept then, also under ``reduce`` and ``aggregate``."""
        if not isinstance(evictor, Evictor):
            raise errors.SpecInvalid(
                f"evictor({evictor!r}): pass an Evictor object, such as CountEvictor.of(100)"
            )
        return replace(self, chosen_evictor=evictor)

    def allowed_lateness(self, lateness: durations.Duration) -> Self:
        """A window takes rows until the watermark is ``lateness`` behind its last moment."""
        found = durations.milliseconds(lateness, "allowed_lateness(…)")
        if found < 0:
            raise errors.SpecInvalid(f"allowed_lateness({lateness!r}): it must be 0 ms or more")
        if found:
            self._need_event_time("allowed_lateness(…)")
        return replace(self, lateness_ms=found)

    def side_output_late_data(self, tag: OutputTag) -> Self:
        """Rows whose windows have all ended go to this side output. Without it they are counted and dropped."""
        late_tag = require_tag(tag, "side_output_late_data(…)")
        self._need_event_time("side_output_late_data(…)")
        return replace(self, late_tag=late_tag)

    # --- what the windows do

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: AnyFunction | None = None,
        *,
        value_type: TypeInformation,
    ) -> WindowOperator:
        """Fold the rows of a window into one of the same kind. ``value_type`` is the type of a row; the function
        returns values of it."""
        if not isinstance(reduce_function, ReduceFunction) and (
            not callable(reduce_function) or isinstance(reduce_function, type)
        ):
            raise errors.SpecInvalid(
                f"reduce({reduce_function!r}): pass a ReduceFunction object or a function of two rows"
            )
        _checked(value_type, "reduce(value_type=…)")
        return self._folding(
            contents.reducing(reduce_function),
            window_function,
            value_type,
            value_type,
            "reduce",
            _call("reduce", reduce_function, window_function),
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AnyFunction | None = None,
        *,
        accumulator_type: TypeInformation,
        element_type: TypeInformation | None = None,
    ) -> WindowOperator:
        """Fold the rows of a window into an accumulator of ``accumulator_type``, which is what is stored.
        ``element_type`` is the type of a row; it is needed with an evictor only, which keeps the rows."""
        if not isinstance(aggregate_function, AggregateFunction):
            hint = "; create an instance of the class" if isinstance(aggregate_function, type) else ""
            raise errors.SpecInvalid(
                f"aggregate({aggregate_function!r}): pass an AggregateFunction object{hint}"
            )
        if (
            isinstance(self.assigner, MergingWindowAssigner)
            and not self.keeps_rows
            and type(aggregate_function).merge is AggregateFunction.merge
        ):
            raise errors.SpecInvalid(
                f"aggregate({type(aggregate_function).__qualname__}): the windows of {self.assigner!r} merge; define "
                "merge(acc_a, acc_b) in the function"
            )
        _checked(accumulator_type, "aggregate(accumulator_type=…)")
        fold = contents.aggregating(aggregate_function)
        call = _call("aggregate", aggregate_function, window_function)
        return self._folding(fold, window_function, accumulator_type, element_type, "aggregate", call)

    def process(
        self, process_window_function: ProcessWindowFunction, *, element_type: TypeInformation
    ) -> WindowOperator:
        """Call the function with all rows of a window, of ``element_type``, when it fires."""
        if not isinstance(process_window_function, ProcessWindowFunction):
            raise _refused("process", "a ProcessWindowFunction", process_window_function)
        return self._listing(process_window_function, element_type, "process")

    def apply(self, window_function: WindowFunction, *, element_type: TypeInformation) -> WindowOperator:
        """Call the function with all rows of a window, of ``element_type``, when it fires."""
        if not isinstance(window_function, WindowFunction):
            raise _refused("apply", "a WindowFunction", window_function)
        return self._listing(window_function, element_type, "apply")

    def session_gap(self, where: str) -> int | None:
        """The gap in ms, of sessions by event time with one gap for all rows; None: these are other windows. Raises
        ``SpecInvalid``, beginning with ``where``, for a trigger or an evictor, with which rows have to be kept."""
        assigner = self.assigner
        if type(assigner) is not EventTimeSessionWindows or not isinstance(assigner.gap, int):
            return None
        self._refuse_choices(where)
        return assigner.gap

    def fixed_lengths(self, where: str) -> tuple[int, int, int]:
        """Size, slide and offset in ms, of tumbling or sliding windows by event time. Raises ``SpecInvalid``, beginning
        with ``where``, for other windows, and for a trigger or an evictor, with which rows have to be kept."""
        assigner = self.assigner
        if type(assigner) not in (TumblingEventTimeWindows, SlidingEventTimeWindows):
            raise errors.SpecInvalid(
                f"{where}: the windows are {assigner!r}; it needs TumblingEventTimeWindows, SlidingEventTimeWindows or "
                "EventTimeSessionWindows.with_gap(…): use aggregate(…) for others"
            )
        assert isinstance(assigner, FixedWindows)
        self._refuse_choices(where)
        return assigner.size, assigner.slide, assigner.offset

    def _refuse_choices(self, where: str) -> None:
        for chosen, what in ((self.chosen_trigger, "trigger"), (self.chosen_evictor, "evictor")):
            if chosen is not None:
                raise errors.SpecInvalid(
                    f"{where}: {what}({chosen!r}) is not possible with it, because the rows of a window are not "
                    "kept one by one; leave it out, or use aggregate(…)"
                )

    # --- putting it together

    @property
    def keeps_rows(self) -> bool:
        """Whether there is an evictor, for which a window keeps all of its rows."""
        return self.chosen_evictor is not None

    def _folding(
        self,
        fold: contents.Fold,
        window_function: AnyFunction | None,
        stored_type: TypeInformation,
        element_type: TypeInformation | None,
        what: str,
        call: str,
    ) -> WindowOperator:
        if window_function is not None and not isinstance(
            window_function, (ProcessWindowFunction, WindowFunction)
        ):
            wanted = "a ProcessWindowFunction or WindowFunction"
            raise _refused(what, wanted, window_function, "window_function=")
        if not self.keeps_rows:
            return self._operator(
                contents.keep_folded(fold, stored_type), window_function, f"one value, by {what}", call
            )
        kind = _checked(element_type, f"{what}(element_type=…), with an evictor, which keeps all rows,")
        kept = contents.keep_timestamped(kind, lambda values: contents.folded(fold, stored_type, values))
        return self._operator(kept, window_function, "rows with their times", call)

    def _listing(self, function: AnyFunction, element_type: TypeInformation, what: str) -> WindowOperator:
        kind, call = _checked(element_type, f"{what}(element_type=…)"), _call(what, function)
        if not self.keeps_rows:
            return self._operator(contents.keep_rows(kind), function, "rows", call)
        return self._operator(contents.keep_timestamped(kind, list), function, "rows with their times", call)

    def _operator(
        self, kept: contents.OpenContents, function: AnyFunction | None, contents_name: str, call: str
    ) -> WindowOperator:
        trigger = self.chosen_trigger or self.assigner.get_default_trigger(None)
        if not isinstance(trigger, Trigger):
            raise errors.SpecInvalid(
                f"get_default_trigger of {self.assigner!r} returned {trigger!r}; return a Trigger object"
            )
        merging = isinstance(self.assigner, MergingWindowAssigner)
        kind: Any = MergingWindowOperator if merging else FixedWindowOperator
        made: WindowOperator = kind(
            self.assigner,
            trigger,
            kept,
            function,
            contents_name=contents_name,
            title=self._title(call),
            evictor=self.chosen_evictor,
            lateness_ms=self.lateness_ms,
            late_tag=self.late_tag,
        )
        return made

    def _title(self, call: str) -> str:
        """The calls that declared the operator, for people."""
        chosen = {"trigger": self.chosen_trigger, "evictor": self.chosen_evictor}
        calls = [f"{name}({type(each).__name__})" for name, each in chosen.items() if each is not None]
        return ".".join([f"window({self.assigner.assigner_title})", *calls, call])

    def _need_event_time(self, what: str) -> None:
        if not self.assigner.is_event_time():
            raise errors.SpecInvalid(
                f"{what}: the windows of {self.assigner!r} do not end by event time, so no row is late; leave it out, "
                "or use windows of event time"
            )


def _call(what: str, *functions: object) -> str:
    """A call as its author wrote it, for people."""
    given = [function for function in functions if function is not None]
    return f"{what}({', '.join(getattr(each, '__name__', type(each).__name__) for each in given)})"


def _refused(what: str, wanted: str, function: object, name: str = "") -> errors.SpecInvalid:
    hint = "; create an instance of the class" if isinstance(function, type) else ""
    return errors.SpecInvalid(f"{what}({name}{function!r}): pass {wanted} object{hint}")


def _checked(found: TypeInformation | None, what: str) -> TypeInformation:
    if not isinstance(found, TypeInformation):
        raise errors.SpecInvalid(
            f"{what} is {found!r}; give a type made by Types, for example "
            "Types.ROW_NAMED(['user', 'amount'], [Types.STRING(), Types.LONG()])"
        )
    return found
