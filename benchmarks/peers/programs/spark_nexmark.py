"""Nexmark's q5, q7 and q12 with Spark's own windows, whose results come once, when the watermark has passed them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from peers import nexmark

SIZE, SLIDE = (f"{length} milliseconds" for length in (nexmark.SIZE_MS, nexmark.SLIDE_MS))
START = "unix_millis(window.start) AS start"


def answered(query: str, bids: Any) -> Any:
    """The streaming DataFrame of answers."""
    tumbling = F.window("ts", SIZE)
    if query == "q12":
        counts = bids.groupBy("bidder", tumbling).agg(F.count("*").alias("bids"))
        return counts.selectExpr("bidder", START, "bids")
    if query == "q7":
        best = bids.groupBy(tumbling).agg(F.max(F.struct("price", "auction")).alias("best"))
        return best.selectExpr(START, "best.auction", "best.price")
    counts = bids.groupBy("auction", F.window("ts", SIZE, SLIDE)).agg(F.count("*").alias("bids"))
    # Spark's aggregate that keeps all of equal rank is the list of all.
    hot = counts.groupBy("window").agg(
        F.max("bids").alias("most"), F.collect_list(F.struct("auction", "bids")).alias("all")
    )
    each = hot.selectExpr(START, "most", "explode(filter(all, one -> one.bids = most)) AS one")
    return each.selectExpr("start", "one.auction", "one.bids")
