"""Who runs, and with how many rows: every row of the table, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contender:
    """One row of the table. ``rows``: length of the shorter run for each load it takes part in; the longer one has
    twice as many. Slow engines get fewer, so that a run takes seconds and not hours."""

    name: str
    engine: str
    """What has to be installed, see ``installing.py``."""
    user_code: str
    """The language of the user's function."""
    rows: Mapping[str, int]
    words: Mapping[str, str] = field(default_factory=dict)
    """What its program is told beside the words that all are told."""
    each_row: bool = True
    """Every row is answered; False: each key once for a batch of rows, which is less work."""
    epoch_rows: int = 0
    """Rows of a micro-batch, of an engine that has them."""


M, EPOCH = 1_000_000, 1_200_000
"""The rows of a micro-batch are an epoch."""


def _sparkstate(name: str, function: str, rows: Mapping[str, int], *, each_row: bool = True) -> Contender:
    backend = name.split("-")[1]
    words = {"backend": backend, "function": function}
    return Contender(name, "sparkstate", "Python", rows, words, each_row, epoch_rows=EPOCH)


def _flink(name: str, rows: Mapping[str, int], *, mini_batch: str | None = None) -> Contender:
    _, api, backend = name.split("-")[:3]
    words = {"api": api, "backend": backend, **({"mini_batch": mini_batch} if mini_batch else {})}
    return Contender(
        name, "flink", "SQL" if api == "sql" else "Java", rows, words, each_row=mini_batch is None
    )


def _pyflink(name: str, rows: int, **others: int) -> Contender:
    _, mode, backend = name.split("-")
    words = {"mode": mode, "backend": backend}
    return Contender(name, "pyflink", "Python", {"sum": rows, "distinct": rows, **others}, words)


# Lengths are such that the rows of the shorter run take 7 to 15 s on two cores of an AMD EPYC of 2023: less lets the
# JVM's compilation and the machine's own variation decide the rate, more lets a round of all loads take hours.
HASHMAP_QUERIES = {
    "q3": 12 * EPOCH,
    "q5": 7 * EPOCH,
    "q7": 8 * EPOCH,
    "q8": 12 * EPOCH,
    "q11": 6 * EPOCH,
    "q12": 10 * EPOCH,
}
ROCKSDB_QUERIES = HASHMAP_QUERIES | {"q5": 4 * EPOCH, "q8": 8 * EPOCH}
SPARK_QUERIES = {
    "q3": 10 * EPOCH,
    "q5": 3 * EPOCH,
    "q7": 7 * EPOCH,
    "q8": 5 * EPOCH,
    "q11": 4 * EPOCH,
    "q12": 7 * EPOCH,
}
FLINK_HASHMAP_QUERIES = {"q3": 30 * M, "q5": 10 * M, "q7": 16 * M, "q8": 24 * M, "q11": 12 * M, "q12": 16 * M}
FLINK_ROCKSDB_QUERIES = {"q3": 16 * M, "q5": 2 * M, "q7": 7 * M, "q8": 8 * M, "q11": 1_400_000, "q12": 7 * M}

CONTENDERS = {
    contender.name: contender
    for contender in (
        _sparkstate(
            "sparkstate-hashmap",
            "record",
            {"sum": 10 * EPOCH, "distinct": 6 * EPOCH, "session": 8 * EPOCH} | HASHMAP_QUERIES,
        ),
        _sparkstate(
            "sparkstate-rocksdb",
            "record",
            {"sum": 10 * EPOCH, "distinct": 4 * EPOCH, "large": 2 * EPOCH, "session": 8 * EPOCH}
            | ROCKSDB_QUERIES,
        ),
        _sparkstate("sparkstate-hashmap-batches", "batches", {"sum": 20 * EPOCH, "distinct": 10 * EPOCH}),
        _sparkstate(
            "sparkstate-rocksdb-batches",
            "batches",
            {"sum": 20 * EPOCH, "distinct": 5 * EPOCH, "large": 2 * EPOCH},
        ),
        _sparkstate("sparkstate-hashmap-added", "added", {"sum": 20 * EPOCH}, each_row=False),
        _sparkstate("sparkstate-rocksdb-added", "added", {"sum": 20 * EPOCH}, each_row=False),
        _flink(
            "flink-sql-hashmap", {"sum": 16 * M, "distinct": 4 * M, "session": 6 * M} | FLINK_HASHMAP_QUERIES
        ),
        _flink(
            "flink-sql-rocksdb",
            {"sum": 3 * M, "distinct": 2 * M, "session": 1_200_000} | FLINK_ROCKSDB_QUERIES,
        ),
        _flink("flink-sql-hashmap-mini-batch", {"sum": 18 * M}, mini_batch="1 s"),
        _flink("flink-sql-rocksdb-mini-batch", {"sum": 8 * M}, mini_batch="1 s"),
        _flink("flink-datastream-hashmap", {"sum": 40 * M, "distinct": 6 * M, "session": 14 * M}),
        # Of ``large``, it did not end a run of four million rows within the ten minutes that a run may take.
        _flink(
            "flink-datastream-rocksdb",
            {"sum": 6 * M, "distinct": 3 * M, "large": 1_400_000, "session": 1_600_000},
        ),
        _pyflink("pyflink-process-hashmap", 20_000),
        _pyflink("pyflink-process-rocksdb", 20_000),
        _pyflink("pyflink-thread-hashmap", 200_000),
        # In processes it needs more than the ten minutes of a run to bring each of the 1.3 million keys once.
        _pyflink("pyflink-thread-rocksdb", 120_000, large=1_400_000),
        Contender("bytewax", "bytewax", "Python", {"sum": 1_200_000, "distinct": 1_200_000}),
        Contender("quix-streams", "quix", "Python", {"sum": 1_000_000, "distinct": 1_000_000}),
        Contender(
            "spark-windows",
            "spark",
            "SQL",
            {"session": 3 * EPOCH} | SPARK_QUERIES,
            {"function": "windows"},
            epoch_rows=EPOCH,
        ),
        Contender(
            "spark-transform-with-state",
            "spark",
            "Python",
            {"sum": 40_000, "distinct": 40_000},
            {"function": "rows"},
            epoch_rows=20_000,
        ),
        Contender(
            "spark-transform-with-state-pandas",
            "spark",
            "Python",
            {"sum": 40_000, "distinct": 40_000},
            {"function": "pandas"},
            epoch_rows=20_000,
        ),
    )
}
