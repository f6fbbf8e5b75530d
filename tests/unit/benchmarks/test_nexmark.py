"""Nexmark's events and the answers that engines are held against."""

from __future__ import annotations

import sqlite3

import numpy as np
from support.examples import example

PEERS = example.ROOT / "benchmarks" / "peers"
contenders = example.load(PEERS / "contenders.py")
loads = example.load(PEERS / "loads.py")
nexmark = example.load(PEERS / "nexmark.py")


def bids(*rows: tuple[int, int, int, int]) -> object:
    return nexmark.Bids(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def test_sql_and_numpy_make_the_same_bids() -> None:
    names = ("auction", "bidder", "price")
    with sqlite3.connect(":memory:") as database:
        database.create_function("GREATEST", 2, max, deterministic=True)
        columns = ", ".join((nexmark.AUCTION, nexmark.BIDDER, nexmark.PRICE))
        numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)"
        # The whole numbers of SQLite divide without a remainder, as FLOOR does for those above zero.
        found = database.execute(f"{numbers} SELECT {columns} FROM n WHERE {nexmark.IS_BID}").fetchall()
    wanted = nexmark.reference_bids(loads.times(20_000))
    assert np.array_equal(np.array(found), np.stack([getattr(wanted, name) for name in names], 1))


def test_bids_have_the_proportions_of_nexmark_and_no_price_twice() -> None:
    found = nexmark.reference_bids(loads.times(200_000))
    assert len(found.price) == 200_000 // 50 * 46
    assert len(np.unique(found.price)) == len(found.price)
    assert 0.50 < np.mean(found.auction % 100 == 0) < 0.52
    assert 0.75 < np.mean(found.bidder % 100 == 0) < 0.80
    assert found.auction.min() >= 0
    assert found.auction.max() < 3 * 200_000 // 50


def test_all_auctions_with_the_most_bids_of_a_window_are_hot() -> None:
    found = nexmark.expected("q5", bids((7, 1, 5, 10_500), (8, 1, 6, 11_900), (8, 1, 7, 12_100)))
    assert [answer for answer, _ in sorted(found)] == [
        (2_000, 7, 1),
        (2_000, 8, 1),
        *((start, 8, 2) for start in (4_000, 6_000, 8_000, 10_000)),
        (12_000, 8, 1),
    ]
    assert all(end == start + nexmark.SIZE_MS for (start, *_), end in found)


def test_the_highest_bid_is_that_of_its_window() -> None:
    found = nexmark.expected("q7", bids((1, 1, 30, 9_999), (2, 1, 20, 10_000), (3, 1, 10, 0)))
    assert found == [((0, 1, 30), 10_000), ((10_000, 2, 20), 20_000)]


def test_bids_are_counted_for_each_bidder_and_window() -> None:
    found = nexmark.expected("q12", bids((1, 5, 1, 9_999), (2, 5, 2, 0), (3, 6, 3, 1), (4, 5, 4, 10_000)))
    assert [answer for answer, _ in found] == [(5, 0, 2), (5, 10_000, 1), (6, 0, 1)]


def test_a_session_ends_where_nobody_bids_for_longer_than_the_gap() -> None:
    found = nexmark.expected(
        "q11", bids((1, 5, 1, 20_001), (2, 5, 2, 0), (3, 5, 3, 10_000), (4, 6, 4, 3), (5, 5, 5, 30_002))
    )
    assert found == [
        ((5, 0, 2), 20_000),
        ((5, 20_001, 1), 30_001),
        ((5, 30_002, 1), 40_002),
        ((6, 3, 1), 10_003),
    ]


def test_the_comparison_sees_each_query_answer_in_several_epochs() -> None:
    rows = 20_000
    for query in loads.QUERIES:
        load = loads.compared(loads.LOADS[query], rows)
        times = loads.times(rows, load.step_ms, load.begin_ms)
        found = nexmark.expected(query, nexmark.reference_bids(times))
        final = [end for _, end in found if end < times.max() - loads.DELAY_MS]
        assert len(final) > 0.8 * len(found), query
        assert len(np.unique(np.array(final) * 4 // times.max())) == 4, query


def test_each_query_has_a_contender_of_ours_with_either_backend() -> None:
    for query in loads.QUERIES:
        names = {name for name, one in contenders.CONTENDERS.items() if query in one.rows}
        assert {"sparkstate-hashmap", "sparkstate-rocksdb"} <= names, query
