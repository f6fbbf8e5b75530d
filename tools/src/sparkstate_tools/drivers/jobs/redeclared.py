"""``totals`` after changes that its stored state does not survive: keys of another type, a state of another type."""

from __future__ import annotations

from typing import Any

import totals

from sparkstate import Types, ValueStateDescriptor


class Texts(totals.Totals):
    """Declares its sum as text."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.STRING()))


def job(spark: Any, params: dict[str, str]) -> None:
    from pyspark.sql import functions as F

    rows = totals.source(spark, params)
    if params["change"] == "key":
        totals.declare(rows.withColumn("k", F.length("k").cast("bigint")), params)
    else:
        totals.declare(rows, params, Texts)
