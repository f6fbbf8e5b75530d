"""Nexmark's queries with Spark's own windows, answered once, when the watermark has passed them, and its joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F

from peers import nexmark

SIZE, SLIDE, GAP = (
    f"{length} milliseconds" for length in (nexmark.SIZE_MS, nexmark.SLIDE_MS, nexmark.GAP_MS)
)
START = "unix_millis(window.start) AS start"


def tumbling() -> Any:
    """The window of a row."""
    return F.window("ts", SIZE)


def answered(query: str, events: Callable[[str], Any]) -> Any:
    """The streaming DataFrame of answers; ``events`` gives those of a kind."""
    if query == "q3":
        return local_items(events("persons"), events("auctions"))
    if query == "q8":
        return new_sellers(events("persons"), events("auctions"))
    bids = events("bids")
    if query == "q12":
        counts = bids.groupBy("bidder", tumbling()).agg(F.count("*").alias("bids"))
        return counts.selectExpr("bidder", START, "bids")
    if query == "q11":
        sessions = bids.groupBy("bidder", F.session_window("ts", GAP).alias("window"))
        return sessions.agg(F.count("*").alias("bids")).selectExpr("bidder", START, "bids")
    if query == "q7":
        best = bids.groupBy(tumbling()).agg(F.max(F.struct("price", "auction")).alias("best"))
        return best.selectExpr(START, "best.auction", "best.price")
    return hot_items(bids)


def hot_items(bids: Any) -> Any:
    """The answers of q5."""
    counts = bids.groupBy("auction", F.window("ts", SIZE, SLIDE)).agg(F.count("*").alias("bids"))
    # Spark's aggregate that keeps all of equal rank is the list of all.
    hot = counts.groupBy("window").agg(
        F.max("bids").alias("most"), F.collect_list(F.struct("auction", "bids")).alias("all")
    )
    each = hot.selectExpr(START, "most", "explode(filter(all, one -> one.bids = most)) AS one")
    return each.selectExpr("start", "one.auction", "one.bids")


def local_items(persons: Any, auctions: Any) -> Any:
    """The answers of q3, whose both sides are kept for ever."""
    local = persons.where(nexmark.IS_LOCAL)
    chosen = auctions.where(nexmark.IS_CHOSEN).select("seller", "auction")
    return local.join(chosen, F.col("person") == F.col("seller")).drop("seller")


def new_sellers(persons: Any, auctions: Any) -> Any:
    """The answers of q8: a join of two streams by window."""
    came = persons.select("person", tumbling().alias("window"))
    sold = auctions.groupBy("seller", tumbling().alias("sold")).agg(F.count("*").alias("auctions"))
    same = (F.col("person") == F.col("seller")) & (F.col("window") == F.col("sold"))
    return came.join(sold, same).selectExpr("person", START)
