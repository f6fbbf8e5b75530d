"""The loads ``q5``, ``q7``, ``q11`` and ``q12``: queries of Nexmark over bids that are a function of their number.

Of 50 events the first is a new person, three are new auctions and 46 are bids, as in Nexmark's generator. Its random
numbers are replaced by two multiplicative hashes of the event's number, so that any engine calculates an event by
itself; ``docs/benchmarks.md`` lists what else differs. Below are the expressions for Spark and, written a second time
in NumPy, the bids and the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_HASH = "MOD(i * 2654435761, 4294967296)"
PRICE = "MOD(i * 2246822519, 4294967296)"
"""The multiplier is odd, so no two bids below 2³² have the same price, and the highest of a window is one."""
_ROUND = "CAST(FLOOR(i / 50) AS BIGINT)"
IS_BID = "MOD(i, 50) >= 4"
AUCTION = (
    f"CASE WHEN MOD({_HASH}, 100) < 50 THEN CAST(FLOOR((3 * {_ROUND} + 2) / 100) AS BIGINT) * 100"
    f" ELSE GREATEST(3 * {_ROUND} + 2 - MOD(CAST(FLOOR({_HASH} / 256) AS BIGINT), 100), 0) END"
)
"""Half of the bids go to the newest auction whose number is a multiple of 100, the others to the newest hundred."""
BIDDER = (
    f"CASE WHEN MOD({PRICE}, 100) < 75 THEN CAST(FLOOR({_ROUND} / 100) AS BIGINT) * 100"
    f" ELSE GREATEST({_ROUND} - MOD(CAST(FLOOR({PRICE} / 256) AS BIGINT), 1000), 0) END"
)
"""Three quarters come from the newest person whose number is a multiple of 100, the others from the newest thousand."""

SIZE_MS, SLIDE_MS, GAP_MS = 10_000, 2_000, 10_000
"""Windows of q5, q7 and q12; the slide of q5; the gap of q11."""

COLUMNS = {
    "q5": "start, auction, bids",
    "q7": "start, auction, price",
    "q11": "bidder, start, bids",
    "q12": "bidder, start, bids",
}
"""The columns of a query's answers."""

Answer = tuple[int, ...]


def bids(numbers: Any, time: str) -> Any:
    """Spark's bids ``auction, bidder, price, ts`` among the events ``i``; ``time`` gives milliseconds."""
    return numbers.where(IS_BID).selectExpr(
        f"{AUCTION} AS auction",
        f"{BIDDER} AS bidder",
        f"{PRICE} AS price",
        f"timestamp_millis({time}) AS ts",
    )


@dataclass(frozen=True)
class Bids:
    """One array for each column; times in milliseconds."""

    auction: Any
    bidder: Any
    price: Any
    ts: Any


def reference_bids(times: Any) -> Bids:
    """The bids among as many events as there are event times."""
    i = np.arange(len(times), dtype=np.int64)
    i = i[i % 50 >= 4]
    chosen, price = i * 2654435761 % (1 << 32), i * 2246822519 % (1 << 32)
    person = i // 50
    auction = person * 3 + 2
    return Bids(
        np.where(chosen % 100 < 50, auction // 100 * 100, np.maximum(auction - (chosen >> 8) % 100, 0)),
        np.where(price % 100 < 75, person // 100 * 100, np.maximum(person - (price >> 8) % 1000, 0)),
        price,
        times[i],
    )


def expected(query: str, rows: Bids) -> list[tuple[Answer, int]]:
    """All answers, each with the event time from which a watermark makes it final."""
    if query == "q5":
        return _hot_items(rows)
    if query == "q7":
        return _highest(rows)
    if query == "q12":
        return _counts(rows.bidder, rows.ts // SIZE_MS * SIZE_MS)
    return _sessions(rows)


def _counts(keys: Any, starts: Any) -> list[tuple[Answer, int]]:
    pairs, counts = np.unique(np.stack([keys, starts], 1), axis=0, return_counts=True)
    return [
        ((int(key), int(start), int(count)), int(start) + SIZE_MS)
        for (key, start), count in zip(pairs, counts, strict=True)
    ]


def _hot_items(rows: Bids) -> list[tuple[Answer, int]]:
    newest = rows.ts // SLIDE_MS * SLIDE_MS
    shifts = range(0, SIZE_MS, SLIDE_MS)
    starts = np.concatenate([newest - shift for shift in shifts])
    counted = _counts(np.tile(rows.auction, len(shifts)), starts)
    most: dict[int, int] = {}
    for (_, start, count), _ in counted:
        most[start] = max(most.get(start, 0), count)
    return [
        ((start, auction, count), end) for (auction, start, count), end in counted if count == most[start]
    ]


def _highest(rows: Bids) -> list[tuple[Answer, int]]:
    starts = rows.ts // SIZE_MS * SIZE_MS
    order = np.lexsort((rows.price, starts))
    last = order[np.r_[starts[order][1:] != starts[order][:-1], True]]
    return [
        ((int(starts[at]), int(rows.auction[at]), int(rows.price[at])), int(starts[at]) + SIZE_MS)
        for at in last
    ]


def _sessions(rows: Bids) -> list[tuple[Answer, int]]:
    order = np.lexsort((rows.ts, rows.bidder))
    bidder, ts = rows.bidder[order], rows.ts[order]
    begins = np.flatnonzero(np.r_[True, (bidder[1:] != bidder[:-1]) | (np.diff(ts) > GAP_MS)])
    ends = np.r_[begins[1:], len(ts)]
    return [
        ((int(bidder[begin]), int(ts[begin]), int(end - begin)), int(ts[end - 1]) + GAP_MS)
        for begin, end in zip(begins, ends, strict=True)
    ]
