"""Nexmark's queries as Flink's SQL, with windows by its table functions; ``SqlPeer.java`` runs them."""

from __future__ import annotations

from peers import nexmark

SIZE, SLIDE, GAP = (
    f"INTERVAL '{length // 1000}' SECOND" for length in (nexmark.SIZE_MS, nexmark.SLIDE_MS, nexmark.GAP_MS)
)
QUERIES = {
    "q3": f"""
        SELECT person, city, state, auction
        FROM auctions JOIN persons ON seller = person
        WHERE {nexmark.IS_CHOSEN} AND {nexmark.IS_LOCAL}
    """,
    "q5": f"""
        WITH counts AS (
            SELECT auction, COUNT(*) AS total, window_start, window_end
            FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), {SLIDE}, {SIZE}))
            GROUP BY auction, window_start, window_end
        ), highest AS (
            SELECT MAX(total) AS most, window_start, window_end
            FROM counts GROUP BY window_start, window_end
        )
        SELECT counts.window_start, auction, total
        FROM counts JOIN highest ON counts.window_start = highest.window_start
            AND counts.window_end = highest.window_end AND total = most
    """,
    "q7": f"""
        WITH highest AS (
            SELECT auction, MAX(price) AS price, window_start, window_end
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), {SIZE}))
            GROUP BY auction, window_start, window_end
        )
        SELECT window_start, auction, price
        FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place
            FROM highest
        )
        WHERE place = 1
    """,
    "q8": f"""
        WITH came AS (
            SELECT person, window_start, window_end
            FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(ts), {SIZE}))
            GROUP BY person, window_start, window_end
        ), sold AS (
            SELECT seller, window_start, window_end
            FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), {SIZE}))
            GROUP BY seller, window_start, window_end
        )
        SELECT person, came.window_start
        FROM came JOIN sold ON person = seller
            AND came.window_start = sold.window_start AND came.window_end = sold.window_end
    """,
    "q11": f"""
        SELECT bidder, window_start, COUNT(*) AS total
        FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), {GAP}))
        GROUP BY bidder, window_start, window_end
    """,
    "q12": f"""
        SELECT bidder, window_start, COUNT(*) AS total
        FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), {SIZE}))
        GROUP BY bidder, window_start, window_end
    """,
}


def words(query: str, *, timed: bool) -> dict[str, str]:
    """The query, and a view for each kind of events over the numbers ``i`` and, where it matters, their time ``ts``."""
    time = ["ts"] if timed else []
    views = {
        kind: f"SELECT {', '.join([*nexmark.selected(kind), *time])} FROM counted WHERE {events.where}"
        for kind, events in nexmark.EVENTS.items()
    }
    return {"query": QUERIES[query], **views}
