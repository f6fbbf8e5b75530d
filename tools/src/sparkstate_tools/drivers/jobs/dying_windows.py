"""Windows over the rows of ``totals.py`` whose slot kills itself once, in the middle of ``params["moment"]``: when a
window fires, when one is cleaned up, or when sessions merge. ``params["died"]`` is the file that says it has."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import totals
import windowed

import sparkstate
from sparkstate import Types
from sparkstate.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    TimeWindow,
    TumblingEventTimeWindows,
)

CALLS = 25
"""Of the moment's function, before the slot dies: the state has something then, and the epoch is not over."""


class Death:
    """The end of the slot's process at the moment that the job names."""

    def __init__(self, params: dict[str, str]) -> None:
        self.moment, self.file, self.calls = params["moment"], params["died"], 0

    def at(self, moment: str) -> None:
        """Nothing, or the end of this process, the first time that any slot comes so far."""
        if moment != self.moment:
            return
        self.calls += 1
        if self.calls < CALLS:
            return
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)


class Sums(windowed.Sums):
    """Sum and number of rows."""

    def __init__(self, death: Death) -> None:
        self.death = death

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        self.death.at("merging")
        merged: tuple[int, int] = super().merge(acc_a, acc_b)
        return merged


class SumsFunction(ProcessWindowFunction):
    """Key and window before the result."""

    def __init__(self, death: Death) -> None:
        self.death = death

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window: TimeWindow = context.window()
        for total, rows in elements:
            self.death.at("firing")
            yield key, window.start, window.end, total, rows

    def clear(self, context: Any) -> None:
        self.death.at("cleaning")


def job(spark: Any, params: dict[str, str]) -> None:
    keyed = sparkstate.keyed(totals.source(spark, params), "k", event_time="at", delay=500)
    death, pair = Death(params), Types.TUPLE([Types.LONG(), Types.LONG()])
    for name, assigner in (
        ("tumbling", TumblingEventTimeWindows.of(300)),
        ("session", EventTimeSessionWindows.with_gap("20 ms")),
    ):
        keyed.window(assigner).aggregate(
            Sums(death), SumsFunction(death), uid=name, output_schema=windowed.SCHEMA, accumulator_type=pair
        ).sink(sparkstate.FileSink(f"{params['output']}/{name}"))
