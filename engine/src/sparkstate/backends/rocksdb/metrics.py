"""RocksDB's native metrics under Flink's names; each is off unless it is named in ``stateBackend.nativeMetrics``.

Reading some of them costs time in RocksDB, so choose those that are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from sparkstate import errors
from sparkstate.backends.rocksdb.database import Database
from sparkstate.backends.rocksdb.family import Family

PREFIX = "state.backend.rocksdb.metrics."

# name → whether the whole slot shares the thing measured (then one store tells all), or stores and families
# are added up
PROPERTIES: Mapping[str, bool] = MappingProxyType(
    {
        "num-immutable-mem-table": False,
        "mem-table-flush-pending": False,
        "compaction-pending": False,
        "background-errors": False,
        "cur-size-active-mem-table": False,
        "cur-size-all-mem-tables": False,
        "size-all-mem-tables": False,
        "num-entries-active-mem-table": False,
        "num-entries-imm-mem-tables": False,
        "num-deletes-active-mem-table": False,
        "num-deletes-imm-mem-tables": False,
        "estimate-num-keys": False,
        "estimate-table-readers-mem": False,
        "num-snapshots": False,
        "num-live-versions": False,
        "estimate-live-data-size": False,
        "min-log-number-to-keep": False,
        "total-sst-files-size": False,
        "live-sst-files-size": False,
        "estimate-pending-compaction-bytes": False,
        "num-running-compactions": False,
        "num-running-flushes": False,
        "actual-delayed-write-rate": False,
        "is-write-stopped": False,
        "block-cache-capacity": True,
        "block-cache-usage": True,
        "block-cache-pinned-usage": True,
    }
)
# These belong to a whole store: every column family gives the same answer.
_PER_STORE = frozenset(
    {
        "background-errors",
        "num-snapshots",
        "min-log-number-to-keep",
        "num-running-compactions",
        "num-running-flushes",
        "actual-delayed-write-rate",
        "is-write-stopped",
    }
)
_FILES_AT_LEVEL = "num-files-at-level"
_LEVELS = 7
TICKERS: Mapping[str, str] = MappingProxyType(
    {
        "block-cache-hit": "rocksdb.block.cache.hit",
        "block-cache-miss": "rocksdb.block.cache.miss",
        "bloom-filter-useful": "rocksdb.bloom.filter.useful",
        "bloom-filter-full-positive": "rocksdb.bloom.filter.full.positive",
        "bloom-filter-full-true-positive": "rocksdb.bloom.filter.full.true.positive",
        "bytes-read": "rocksdb.bytes.read",
        "iter-bytes-read": "rocksdb.db.iter.bytes.read",
        "bytes-written": "rocksdb.bytes.written",
        "compaction-read-bytes": "rocksdb.compact.read.bytes",
        "compaction-write-bytes": "rocksdb.compact.write.bytes",
        "stall-micros": "rocksdb.stall.micros",
    }
)
_COUNT = re.compile(r"^(\S+) COUNT : (\d+)$", re.MULTILINE)


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names without Flink's prefix; raises :class:`errors.SpecInvalid` for one that does not exist."""
    chosen = tuple(dict.fromkeys(name.removeprefix(PREFIX) for name in names))
    known = {*PROPERTIES, *TICKERS, _FILES_AT_LEVEL}
    for name in chosen:
        if name not in known:
            raise errors.SpecInvalid(
                f"nativeMetrics names {name!r}, which does not exist; choose from {', '.join(sorted(known))}"
            )
    return chosen


def needs_statistics(names: Iterable[str]) -> bool:
    """Whether RocksDB must count while it works (tickers), at a cost of some percent."""
    return any(name in TICKERS for name in names)


def collect(names: Sequence[str], databases: Sequence[Database], shared_cache: bool) -> dict[str, float]:
    """Values of the chosen metrics, added up over stores and column families."""
    values: dict[str, float] = {}
    for name in names:
        if name in TICKERS:
            continue
        if name == _FILES_AT_LEVEL:
            for level in range(_LEVELS):
                values[f"{name}{level}"] = _sum(databases, f"rocksdb.{name}{level}")
        elif PROPERTIES[name] and shared_cache:
            values[name] = _first(databases, f"rocksdb.{name}")
        elif name in _PER_STORE:
            values[name] = float(sum(_first([database], f"rocksdb.{name}") for database in databases))
        else:
            values[name] = _sum(databases, f"rocksdb.{name}")
    chosen = [name for name in names if name in TICKERS]
    if chosen:
        totals = _tickers(databases)
        values.update({name: float(totals.get(TICKERS[name], 0)) for name in chosen})
    return values


def by_family(names: Sequence[str], databases: Sequence[Database], shared_cache: bool) -> dict[str, float]:
    """The chosen properties as ``family.name`` (``metrics.column-family-as-variable``), added up over stores. Those of
    a cache that the stores share are not added up."""
    values: dict[str, float] = {}
    for database in databases:
        for family_name, family in database.families().items():
            for name in names:
                if name in PROPERTIES:
                    label = f"{family_name}.{name}"
                    before = 0.0 if PROPERTIES[name] and shared_cache else values.get(label, 0.0)
                    values[label] = before + family.integer(f"rocksdb.{name}")
    return values


def _sum(databases: Sequence[Database], name: str) -> float:
    return float(sum(_number(family, name) for db in databases for family in db.families().values()))


def _first(databases: Sequence[Database], name: str) -> float:
    for database in databases:
        for family in database.families().values():
            return float(_number(family, name))
    return 0.0


def _number(family: Family, name: str) -> int:
    text = family.text(name)
    return int(text) if text else 0


def _tickers(databases: Sequence[Database]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for database in databases:
        for ticker, count in _COUNT.findall(database.statistics()):
            totals[ticker] = totals.get(ticker, 0) + int(count)
    return totals
