"""Queries of Nexmark (the loads ``q…``) over events that are a function of their number.

Of 50 events the first is a new person, three are new auctions and 46 are bids, as in Nexmark's generator. Its random
numbers are replaced by two multiplicative hashes of the event's number, so that any engine calculates an event by
itself; ``docs/benchmarks.md`` lists what else differs. Below are the columns as SQL that Spark and Flink read alike
and, written a second time in NumPy, the events and the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

_HASH = "MOD(i * 2654435761, 4294967296)"
_PRICE = "MOD(i * 2246822519, 4294967296)"
"""The multiplier is odd, so no two bids below 2³² have the same price, and the highest of a window is one."""
_ROUND = "CAST(FLOOR(i / 50) AS BIGINT)"
_HOT_PERSON = f"CASE WHEN MOD({_PRICE}, 100) < 75 THEN CAST(FLOOR({_ROUND} / 100) AS BIGINT) * 100"
"""Three quarters come from the newest person whose number is a multiple of 100."""


def _high(number: str, below: int) -> str:
    """From the high bits of a hash, since the low ones of events a fixed distance apart repeat."""
    return f"MOD(CAST(FLOOR({number} / 65536) AS BIGINT), {below})"


@dataclass(frozen=True)
class Kind:
    """Which numbers are events of a kind, and their columns."""

    where: str
    columns: Mapping[str, str]


EVENTS = {
    "persons": Kind(
        "MOD(i, 50) = 0", {"person": _ROUND, "city": _high(_PRICE, 10), "state": _high(_HASH, 6)}
    ),
    "auctions": Kind(
        "MOD(i, 50) BETWEEN 1 AND 3",
        {
            "auction": f"3 * {_ROUND} + MOD(i, 50) - 1",
            # The others are among the newest hundred and the next ten persons, who come later than the auction.
            "seller": f"{_HOT_PERSON}"
            f" ELSE GREATEST({_ROUND} + 10 - MOD(CAST(FLOOR({_PRICE} / 256) AS BIGINT), 110), 0) END",
            "category": f"10 + {_high(_HASH, 5)}",
        },
    ),
    "bids": Kind(
        "MOD(i, 50) >= 4",
        {
            # Half of the bids go to the newest auction whose number is a multiple of 100, others to the newest hundred.
            "auction": f"CASE WHEN MOD({_HASH}, 100) < 50"
            f" THEN CAST(FLOOR((3 * {_ROUND} + 2) / 100) AS BIGINT) * 100"
            f" ELSE GREATEST(3 * {_ROUND} + 2 - MOD(CAST(FLOOR({_HASH} / 256) AS BIGINT), 100), 0) END",
            # The others come from the newest thousand.
            "bidder": f"{_HOT_PERSON}"
            f" ELSE GREATEST({_ROUND} - MOD(CAST(FLOOR({_PRICE} / 256) AS BIGINT), 1000), 0) END",
            "price": _PRICE,
        },
    ),
}

SIZE_MS, SLIDE_MS, GAP_MS = 10_000, 2_000, 10_000
"""Windows of q5, q7, q8 and q12; the slide of q5; the gap of q11."""
IS_LOCAL, IS_CHOSEN = "state < 3", "category = 10"
"""Persons and auctions of q3: three of six states, one of five categories."""

COLUMNS = {
    "q3": "person, city, state, auction",
    "q5": "start, auction, bids",
    "q7": "start, auction, price",
    "q8": "person, start",
    "q11": "bidder, start, bids",
    "q12": "bidder, start, bids",
}
"""The columns of a query's answers."""

Answer = tuple[int, ...]


def selected(kind: str) -> list[str]:
    """The columns of a kind of events, for a SELECT."""
    return [f"{sql} AS {name}" for name, sql in EVENTS[kind].columns.items()]


def stream(numbers: Any, kind: str, task: Mapping[str, str]) -> Any:
    """Spark's events of a kind among the events ``i``; where the task has a time, they have it as ``ts``."""
    found = numbers.where(EVENTS[kind].where)
    if "time" not in task:
        return found.selectExpr(*selected(kind))
    timed = found.selectExpr(*selected(kind), f"timestamp_millis({task['time']}) AS ts")
    return timed.withWatermark("ts", f"{task['delay_ms']} milliseconds")


class Persons(NamedTuple):
    """One array for each column; times in milliseconds."""

    person: Any
    city: Any
    state: Any
    ts: Any


class Auctions(NamedTuple):
    """As ``Persons``."""

    auction: Any
    seller: Any
    category: Any
    ts: Any


class Bids(NamedTuple):
    """As ``Persons``."""

    auction: Any
    bidder: Any
    price: Any
    ts: Any


def _hashes(i: Any) -> tuple[Any, Any]:
    return i * 2654435761 % (1 << 32), i * 2246822519 % (1 << 32)


def reference_persons(times: Any) -> Persons:
    """The persons among as many events as there are event times."""
    i = np.arange(0, len(times), 50, dtype=np.int64)
    chosen, price = _hashes(i)
    return Persons(i // 50, (price >> 16) % 10, (chosen >> 16) % 6, times[i])


def reference_auctions(times: Any) -> Auctions:
    """The auctions among as many events as there are event times."""
    i = np.arange(len(times), dtype=np.int64)
    i = i[(i % 50 >= 1) & (i % 50 <= 3)]
    chosen, price = _hashes(i)
    person = i // 50
    return Auctions(
        person * 3 + i % 50 - 1,
        np.where(price % 100 < 75, person // 100 * 100, np.maximum(person + 10 - (price >> 8) % 110, 0)),
        (chosen >> 16) % 5 + 10,
        times[i],
    )


def reference_bids(times: Any) -> Bids:
    """The bids among as many events as there are event times."""
    i = np.arange(len(times), dtype=np.int64)
    i = i[i % 50 >= 4]
    chosen, price = _hashes(i)
    person = i // 50
    auction = person * 3 + 2
    return Bids(
        np.where(chosen % 100 < 50, auction // 100 * 100, np.maximum(auction - (chosen >> 8) % 100, 0)),
        np.where(price % 100 < 75, person // 100 * 100, np.maximum(person - (price >> 8) % 1000, 0)),
        price,
        times[i],
    )


def expected(query: str, times: Any) -> list[tuple[Answer, int]]:
    """All answers to as many events as there are event times, each with the time from which a watermark makes it
    final."""
    if query == "q3":
        return local_items(reference_persons(times), reference_auctions(times))
    if query == "q8":
        return new_sellers(reference_persons(times), reference_auctions(times))
    return OF_BIDS[query](reference_bids(times))


def local_items(persons: Persons, auctions: Auctions) -> list[tuple[Answer, int]]:
    """q3; an answer's time is that of the later of its two events."""
    local = {person: (city, state, ts) for person, city, state, ts in _rows(*persons) if state < 3}
    found = []
    for auction, seller, category, ts in _rows(*auctions):
        if category == 10 and seller in local:
            city, state, came = local[seller]
            found.append(((seller, city, state, auction), max(ts, came)))
    return found


def new_sellers(persons: Persons, auctions: Auctions) -> list[tuple[Answer, int]]:
    """q8: who came, and opened an auction, in the same window."""
    came = set(_rows(persons.person, persons.ts // SIZE_MS * SIZE_MS))
    sold = set(_rows(auctions.seller, auctions.ts // SIZE_MS * SIZE_MS))
    return [(answer, answer[1] + SIZE_MS) for answer in sorted(came & sold)]


def counts(rows: Bids) -> list[tuple[Answer, int]]:
    """q12."""
    return _counts(rows.bidder, rows.ts // SIZE_MS * SIZE_MS)


def _rows(*columns: Any) -> Iterator[Answer]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _counts(keys: Any, starts: Any) -> list[tuple[Answer, int]]:
    pairs, counts = np.unique(np.stack([keys, starts], 1), axis=0, return_counts=True)
    return [
        ((int(key), int(start), int(count)), int(start) + SIZE_MS)
        for (key, start), count in zip(pairs, counts, strict=True)
    ]


def hot_items(rows: Bids) -> list[tuple[Answer, int]]:
    """q5."""
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


def highest(rows: Bids) -> list[tuple[Answer, int]]:
    """q7."""
    starts = rows.ts // SIZE_MS * SIZE_MS
    order = np.lexsort((rows.price, starts))
    last = order[np.r_[starts[order][1:] != starts[order][:-1], True]]
    return [
        ((int(starts[at]), int(rows.auction[at]), int(rows.price[at])), int(starts[at]) + SIZE_MS)
        for at in last
    ]


def sessions(rows: Bids) -> list[tuple[Answer, int]]:
    """q11."""
    order = np.lexsort((rows.ts, rows.bidder))
    bidder, ts = rows.bidder[order], rows.ts[order]
    begins = np.flatnonzero(np.r_[True, (bidder[1:] != bidder[:-1]) | (np.diff(ts) > GAP_MS)])
    ends = np.r_[begins[1:], len(ts)]
    return [
        ((int(bidder[begin]), int(ts[begin]), int(end - begin)), int(ts[end - 1]) + GAP_MS)
        for begin, end in zip(begins, ends, strict=True)
    ]


OF_BIDS = {"q5": hot_items, "q7": highest, "q11": sessions, "q12": counts}
