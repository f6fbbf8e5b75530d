"""Which other engines are ahead of sparkstate in the results of ``make bench-peers``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

OURS: Final = "sparkstate"


@dataclass(frozen=True)
class Comparison:
    """An engine that is faster than the fastest row of ours, or cheaper than the cheapest."""

    name: str
    rate: float
    """As a multiple of the fastest of ours."""
    cost: float
    """CPU time per row as a part of that of the cheapest of ours."""
    fastest: str
    cheapest: str


def others_ahead(load: str, kind: str, results: Sequence[Mapping[str, Any]]) -> list[Comparison] | None:
    """Those on a load that give this kind of answers, the fastest first; None: no row of ours was measured."""
    group = [r for r in measured_of(results) if (r["load"], answers(r)) == (load, kind)]
    ours = [r for r in group if r["name"].startswith(OURS)]
    if not ours:
        return None
    fastest = max(ours, key=lambda r: r["rows_per_s"])
    cheapest = min(ours, key=lambda r: r["cpu_us_per_row"])
    found = [
        Comparison(
            other["name"],
            other["rows_per_s"] / fastest["rows_per_s"],
            other["cpu_us_per_row"] / cheapest["cpu_us_per_row"],
            fastest["name"],
            cheapest["name"],
        )
        for other in sorted(group, key=lambda r: -r["rows_per_s"])
        if other not in ours
    ]
    return [each for each in found if each.rate > 1 or each.cost < 1]


def answers(result: Mapping[str, Any]) -> str:
    """When there is an answer. Nexmark's queries answer a window, or a pair, when it is complete."""
    if result.get("whole"):
        return "whole"
    return "each row" if result["each_row"] else "each key"


def measured_of(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results that have a rate; the others have a reason for having none."""
    return [result for result in results if "rows_per_s" in result]
