"""Which other engines are ahead of sparkstate in the results of ``make bench-peers``.

An engine is compared with our rows on the same kind of store, in memory or RocksDB, where there are any. Otherwise a
fast row on the heap would hide that we lose on RocksDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

OURS: Final = "sparkstate"


@dataclass(frozen=True)
class Comparison:
    """An engine that is faster than the fastest of our rows on its kind of store, or cheaper than the cheapest."""

    name: str
    rate: float
    """As a multiple of the fastest of those."""
    cost: float
    """CPU time per row as a part of that of the cheapest of those."""
    fastest: str
    cheapest: str


def others_ahead(load: str, kind: str, results: Sequence[Mapping[str, Any]]) -> list[Comparison] | None:
    """Those on a load that give this kind of answers, the fastest first; None: no row of ours was measured."""
    group = [r for r in measured_of(results) if (r["load"], answers(r)) == (load, kind)]
    ours = [r for r in group if r["name"].startswith(OURS)]
    if not ours:
        return None
    others = sorted((r for r in group if r not in ours), key=lambda r: -r["rows_per_s"])
    found = [_compared(other, [r for r in ours if _store(r) == _store(other)] or ours) for other in others]
    return [each for each in found if each.rate > 1 or each.cost < 1]


def _compared(other: Mapping[str, Any], ours: Sequence[Mapping[str, Any]]) -> Comparison:
    fastest = max(ours, key=lambda r: r["rows_per_s"])
    cheapest = min(ours, key=lambda r: r["cpu_us_per_row"])
    return Comparison(
        other["name"],
        other["rows_per_s"] / fastest["rows_per_s"],
        other["cpu_us_per_row"] / cheapest["cpu_us_per_row"],
        fastest["name"],
        cheapest["name"],
    )


def _store(result: Mapping[str, Any]) -> str:
    """Where an engine keeps its state. Spark's operators run on its RocksDB store here."""
    name: str = result["name"]
    return "rocksdb" if "rocksdb" in name or name.startswith("spark-") else "heap"


def answers(result: Mapping[str, Any]) -> str:
    """When there is an answer. Nexmark's queries answer a window, or a pair, when it is complete."""
    if result.get("whole"):
        return "whole"
    return "each row" if result["each_row"] else "each key"


def measured_of(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results that have a rate; the others have a reason for having none."""
    return [result for result in results if "rows_per_s" in result]
