"""``totals`` with a mistake that every start of it repeats."""

from __future__ import annotations

import threading
from typing import Any

import totals

from sparkstate import Types, ValueStateDescriptor


class DoubleDeclaration(totals.Totals):
    """Declares one state as two."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.other = ctx.get_state(ValueStateDescriptor("total", Types.STRING()))


class UnpicklableTotals(totals.Totals):
    """Holds a lock, which cannot travel."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lock = threading.Lock()


def job(spark: Any, params: dict[str, str]) -> None:
    function = {"twice": DoubleDeclaration, "unpicklable": UnpicklableTotals}[params["wrong"]]
    totals.declare(totals.source(spark, params), params, function)
