"""The interval join: pairs of rows with one key whose event times lie near each other, by Flink's rules.

A left row at time *t* is joined with each right row from *t + lower* to *t + upper*, whichever of the two comes first.
Each side keeps its rows in a map from event time to the rows of that time. A timer removes them when the watermark has
reached the last time at which a partner may come.

A row behind the watermark is late: its partners may be gone. It is joined with nothing and kept nowhere, and goes to
its side's late output if there is one. A row at the watermark is not late for this operator, as in Flink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sparkstate import errors
from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    Context,
    OnTimerContext,
    OutputTag,
    RuntimeContext,
)
from sparkstate.serde.copies import copied
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types
from sparkstate.state.api import MapState
from sparkstate.state.descriptors import MapStateDescriptor

_SIDES = ("left", "right")


@dataclass(frozen=True)
class JoinContext:
    """The event times of a pair, in ms. Given to ``ProcessJoinFunction.process_element``."""

    left_timestamp: int
    right_timestamp: int

    def get_left_timestamp(self) -> int:
        """Of the left row."""
        return self.left_timestamp

    def get_right_timestamp(self) -> int:
        """Of the right row."""
        return self.right_timestamp

    def get_timestamp(self) -> int:
        """The later of the two, which the pair's output has."""
        return max(self.left_timestamp, self.right_timestamp)


class ProcessJoinFunction:
    """The user's code for pairs of rows."""

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, before the first pair."""

    def process_element(self, left: Any, right: Any, ctx: JoinContext) -> Iterable[Any] | None:
        """Called for each pair. Yields output rows."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_element")

    def close(self) -> None:
        """Called once at the end, also after a failure."""


@dataclass(frozen=True, kw_only=True)
class JoinSide:
    """One of the two streams."""

    row_type: TypeInformation
    late: OutputTag | None
    """Where late rows go; None: nowhere."""
    least: int
    """A row at time *t* is joined with rows of the other side from *t + least*, in ms,"""
    most: int
    """to *t + most*."""

    def expiry(self, timestamp: int) -> int:
        """The watermark at which no partner of a row can come any more."""
        return timestamp + max(self.most, 0)

    def expired(self, timer: int) -> int:
        """The event time of the rows that expire at that watermark."""
        return timer - max(self.most, 0)


class IntervalJoin(KeyedCoProcessFunction):
    """The operator's function."""

    stamps_rows: ClassVar[bool] = True
    judges_lateness: ClassVar[bool] = True

    def __init__(self, given: ProcessJoinFunction, left: JoinSide, right: JoinSide) -> None:
        self._given = given
        self._sides = (left, right)

    @property
    def author_object(self) -> object:
        return self._given

    @property
    def needs_event_time(self) -> bool:
        return True

    @property
    def state_premises(self) -> Mapping[str, str]:
        """The timer of a row was set by the bound of its time, and a timer tells by the bound which rows expire: with
        another one these rows would stay for ever. A bound for which rows do not wait may change."""
        left, right = (max(side.most, 0) for side in self._sides)
        return {
            "lower bound": f"{-right} ms" if right else "0 ms or more",
            "upper bound": f"{left} ms" if left else "0 ms or less",
        }

    def open(self, ctx: RuntimeContext) -> None:
        self._given.open(ctx)
        self._buffers: list[MapState[int, Any]] = [
            ctx.get_map_state(MapStateDescriptor(f"{name}_buffer", Types.LONG(), Types.LIST(side.row_type)))
            for name, side in zip(_SIDES, self._sides, strict=True)
        ]

    def close(self) -> None:
        self._given.close()

    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any]:
        return self._join(0, value, ctx)

    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any]:
        return self._join(1, value, ctx)

    def _join(self, number: int, row: Any, ctx: Context) -> Iterator[Any]:
        side, timestamp, timers = self._sides[number], ctx.timestamp(), ctx.timer_service()
        if timestamp is None:
            raise errors.StateError(
                f"a row of the {_SIDES[number]} stream of an interval join has no event time; filter rows without one "
                "before keyed()"
            )
        if MIN_WATERMARK < timers.current_watermark() > timestamp:
            host: Any = ctx  # the operator's cursor, which takes the number of late rows
            host.late_rows += 1
            if side.late is not None:
                yield timestamp, (side.late, row)
            return
        expiry = side.expiry(timestamp)
        if expiry > MAX_WATERMARK:
            raise errors.StateError(
                f"a row of the {_SIDES[number]} stream of an interval join has the event time {timestamp} ms since "
                f"1970; with the bounds of this join it may be at most {side.expired(MAX_WATERMARK)}: correct the "
                "column of event time, or filter such rows out before keyed()"
            )
        own = self._buffers[number]
        before = own.get(timestamp)
        own.put(timestamp, [row] if before is None else [*before, row])
        timers.register_event_time_timer(expiry, _SIDES[number])
        for other_time, others in self._buffers[1 - number].items():
            if side.least <= other_time - timestamp <= side.most:
                for other in others or ():
                    yield from self._pairs(number, (timestamp, row), (other_time, other))

    def _pairs(self, number: int, one: tuple[int, Any], other: tuple[int, Any]) -> Iterator[Any]:
        (left_time, left), (right_time, right) = (other, one) if number else (one, other)
        context = JoinContext(left_time, right_time)
        for made in self._given.process_element(left, right, context) or ():
            yield context.get_timestamp(), copied(made)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:
        number = _SIDES.index(ctx.namespace())
        self._buffers[number].remove(self._sides[number].expired(timestamp))
