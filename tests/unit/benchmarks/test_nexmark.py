"""Nexmark's events and the answers that engines are held against."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import numpy as np
import pytest
from support.examples import example

PEERS = example.ROOT / "benchmarks" / "peers"
contenders = example.load(PEERS / "contenders.py")
loads = example.load(PEERS / "loads.py")
nexmark = example.load(PEERS / "nexmark.py")


def bids(*rows: tuple[int, int, int, int]) -> object:
    return nexmark.Bids(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def persons(*rows: tuple[int, int, int, int]) -> object:
    return nexmark.Persons(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def auctions(*rows: tuple[int, int, int, int]) -> object:
    return nexmark.Auctions(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("persons", nexmark.reference_persons),
        ("auctions", nexmark.reference_auctions),
        ("bids", nexmark.reference_bids),
    ],
)
def test_sql_and_numpy_make_the_same_events(kind: str, reference: Callable[[object], object]) -> None:
    events = nexmark.EVENTS[kind]
    with sqlite3.connect(":memory:") as database:
        database.create_function("GREATEST", 2, max, deterministic=True)
        numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)"
        # The whole numbers of SQLite divide without a remainder, as FLOOR does for those above zero.
        columns = ", ".join(nexmark.selected(kind))
        found = database.execute(f"{numbers} SELECT {columns} FROM n WHERE {events.where}").fetchall()
    wanted = reference(loads.times(20_000))
    assert np.array_equal(np.array(found), np.stack([getattr(wanted, name) for name in events.columns], 1))


def test_bids_have_the_proportions_of_nexmark_and_no_price_twice() -> None:
    found = nexmark.reference_bids(loads.times(200_000))
    assert len(found.price) == 200_000 // 50 * 46
    assert len(np.unique(found.price)) == len(found.price)
    assert 0.50 < np.mean(found.auction % 100 == 0) < 0.52
    assert 0.75 < np.mean(found.bidder % 100 == 0) < 0.80
    assert found.auction.min() >= 0
    assert found.auction.max() < 3 * 200_000 // 50


def test_persons_and_auctions_have_the_proportions_of_nexmark() -> None:
    times = loads.times(200_000)
    came, sold = nexmark.reference_persons(times), nexmark.reference_auctions(times)
    assert (len(came.person), len(sold.auction)) == (200_000 // 50, 200_000 // 50 * 3)
    assert np.array_equal(sold.auction, np.arange(len(sold.auction)))
    assert 0.75 < np.mean(sold.seller % 100 == 0) < 0.78
    assert set(came.city.tolist()) == set(range(10))
    assert 0.45 < np.mean(came.state < 3) < 0.55
    assert 0.18 < np.mean(sold.category == 10) < 0.22
    assert np.any(sold.seller > np.arange(200_000 // 50).repeat(3)), "no seller comes after an auction"


def test_local_items_are_those_of_persons_from_three_states_whoever_comes_first() -> None:
    found = nexmark.local_items(
        persons((1, 7, 2, 50), (2, 8, 3, 60)),
        auctions((5, 1, 10, 40), (6, 1, 10, 70), (7, 1, 11, 70), (8, 2, 10, 70), (9, 3, 10, 70)),
    )
    assert found == [((1, 7, 2, 5), 50), ((1, 7, 2, 6), 70)]


def test_new_sellers_opened_an_auction_in_the_window_in_which_they_came() -> None:
    found = nexmark.new_sellers(
        persons((1, 0, 0, 10_500), (2, 0, 0, 19_999)),
        auctions((5, 1, 10, 10_000), (6, 1, 10, 19_999), (7, 1, 10, 20_000), (8, 2, 10, 20_000)),
    )
    assert found == [((1, 10_000), 20_000)]


def test_all_auctions_with_the_most_bids_of_a_window_are_hot() -> None:
    found = nexmark.hot_items(bids((7, 1, 5, 10_500), (8, 1, 6, 11_900), (8, 1, 7, 12_100)))
    assert [answer for answer, _ in sorted(found)] == [
        (2_000, 7, 1),
        (2_000, 8, 1),
        *((start, 8, 2) for start in (4_000, 6_000, 8_000, 10_000)),
        (12_000, 8, 1),
    ]
    assert all(end == start + nexmark.SIZE_MS for (start, *_), end in found)


def test_the_highest_bid_is_that_of_its_window() -> None:
    found = nexmark.highest(bids((1, 1, 30, 9_999), (2, 1, 20, 10_000), (3, 1, 10, 0)))
    assert found == [((0, 1, 30), 10_000), ((10_000, 2, 20), 20_000)]


def test_bids_are_counted_for_each_bidder_and_window() -> None:
    found = nexmark.counts(bids((1, 5, 1, 9_999), (2, 5, 2, 0), (3, 6, 3, 1), (4, 5, 4, 10_000)))
    assert [answer for answer, _ in found] == [(5, 0, 2), (5, 10_000, 1), (6, 0, 1)]


def test_a_session_ends_where_nobody_bids_for_longer_than_the_gap() -> None:
    found = nexmark.sessions(
        bids((1, 5, 1, 20_001), (2, 5, 2, 0), (3, 5, 3, 10_000), (4, 6, 4, 3), (5, 5, 5, 30_002))
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
        found = nexmark.expected(query, times)
        final = [end for _, end in found if end < times.max() - loads.DELAY_MS]
        assert len(final) > 0.8 * len(found), query
        assert len(np.unique(np.array(final) * 4 // times.max())) == 4, query


def test_each_query_runs_with_either_backend_of_ours_and_of_flink_and_on_spark() -> None:
    for query in loads.QUERIES:
        names = {name for name, one in contenders.CONTENDERS.items() if query in one.rows}
        assert names == {
            f"{engine}-{backend}"
            for engine in ("sparkstate", "flink-sql")
            for backend in ("hashmap", "rocksdb")
        } | {"spark-windows"}, query
