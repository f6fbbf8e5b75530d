"""The table of ``make bench-peers``: where sparkstate loses, the rates, and who did not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "sparkstate"


def text(results: Sequence[dict[str, Any]]) -> str:
    """Everything that is printed at the end. A result has a ``rows_per_s`` or a ``reason`` for having none."""
    lines = losses(results)
    for load in dict.fromkeys(result["load"] for result in results):
        lines += _table(load, [result for result in results if result["load"] == load])
    lines += ["", verdict(results)]
    return "\n".join(lines)


def losses(results: Sequence[dict[str, Any]]) -> list[str]:
    """For each load and kind of answer the engines that are ahead of the best of ours, by rate or by CPU time."""
    lines = ["Where sparkstate loses"]
    for load, kind in dict.fromkeys((r["load"], answers(r)) for r in results):
        what = f"{load}{_IN_WORDS[kind]}"
        found = others_ahead(load, kind, results)
        if found is None:
            lines.append(f"  {what}: unknown, no row of sparkstate was measured")
            continue
        for each in found:
            if each.rate > 1:
                lines.append(f"  {what}: {each.name} has {each.rate:.2f} times the rate of {each.fastest}")
            if each.cost < 1:
                lines.append(
                    f"  {what}: {each.name} takes {each.cost:.2f} of the CPU time of {each.cheapest}"
                )
    return lines if len(lines) > 1 else [f"{lines[0]}: nowhere among what was measured"]


@dataclass(frozen=True)
class Ahead:
    """An engine that is faster than the fastest row of ours, or cheaper than the cheapest."""

    name: str
    rate: float
    """As a multiple of the fastest of ours."""
    cost: float
    """CPU time per row as a part of that of the cheapest of ours."""
    fastest: str
    cheapest: str


def others_ahead(load: str, kind: str, results: Sequence[Mapping[str, Any]]) -> list[Ahead] | None:
    """Those on a load that give this kind of answers, the fastest first; None: no row of ours was measured."""
    group = [r for r in _measured(results) if (r["load"], answers(r)) == (load, kind)]
    ours = [r for r in group if r["name"].startswith(OURS)]
    if not ours:
        return None
    fastest = max(ours, key=lambda r: r["rows_per_s"])
    cheapest = min(ours, key=lambda r: r["cpu_us_per_row"])
    found = [
        Ahead(
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


_IN_WORDS = {"whole": "", "each row": ", each row answered", "each key": ", each key of a batch answered"}


def _measured(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [result for result in results if "rows_per_s" in result]


def _table(load: str, results: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"\n{load:<34}{'rows/s':>12}{'CPU µs/row':>12}  answers   function  rows of the two runs"]
    measured = sorted(_measured(results), key=lambda r: (not r["each_row"], -r["rows_per_s"]))
    for result in measured:
        runs = " and ".join(f"{rows:,}" for rows in result["lengths"])
        lines.append(
            f"{result['name']:<34}{result['rows_per_s']:>12,}{result['cpu_us_per_row']:>12.2f}  "
            f"{answers(result):<10}{result['user_code']:<10}{runs}"
        )
    lines += [f"{r['name']:<34}not measured: {r['reason']}" for r in results if "reason" in r]
    return lines


def verdict(results: Sequence[dict[str, Any]]) -> str:
    """One line: how many were measured; the answers of all of those were right."""
    measured, absent = len(_measured(results)), len(results) - len(_measured(results))
    wrong = sum(bool(result.get("wrong")) for result in results)
    left = f"{absent} not measured" + (f", {wrong} of them with wrong answers" if wrong else "")
    return f"{'FAIL' if wrong else 'PASS'}  {measured} contenders measured, all with right answers; {left}"
