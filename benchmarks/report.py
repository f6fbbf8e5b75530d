"""The table of a benchmark run: figures, ratios, targets beside them, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """``name`` should reach at least ``ratio`` times the rate of ``base`` on a load."""

    name: str
    base: str
    ratio: float
    load: str = "sum"


@dataclass(frozen=True)
class CostTarget:
    """``name`` should cost at most ``ratio`` times the processor time per row of ``base``, all processes together."""

    name: str
    base: str
    ratio: float
    load: str


COST_TARGETS = (
    CostTarget("hashmap-sliding", "hashmap-windows", 1.5, "windows"),
    CostTarget("rocksdb-sliding", "rocksdb-windows", 1.5, "windows"),
)
TARGETS = (
    Target("hashmap", "identity", 0.60),
    Target("rocksdb", "identity", 0.55),
    Target("hashmap", "transform-with-state", 100),
    Target("rocksdb", "transform-with-state", 100),
    Target("hashmap-batches", "identity", 1.0),
    Target("rocksdb-batches", "identity", 0.9),
    Target("hashmap-added", "aggregation", 1.5),
    Target("rocksdb-added", "aggregation", 1.5),
    Target("hashmap-batches", "identity", 0.6, "distinct"),
    Target("rocksdb-batches", "identity", 0.3, "distinct"),
    Target("rocksdb", "identity", 0.2, "large"),
    Target("hashmap-windows", "window-aggregation", 1.5, "windows"),
    Target("rocksdb-windows", "window-aggregation", 1.5, "windows"),
)


def text(results: Sequence[dict[str, Any]]) -> str:
    """Everything that is printed at the end of a run."""
    throughput = [result for result in results if "rows_per_s" in result]
    latencies = [result for result in results if "p50_ms" in result]
    lines: list[str] = []
    for load in dict.fromkeys(result["load"] for result in throughput):
        lines += _table(load, [result for result in throughput if result["load"] == load])
    if latencies:
        lines += _latencies(latencies)
    lines += _targets(throughput)
    return "\n".join(lines)


def _table(load: str, results: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"\n{load:<22}{'rows/s':>12}{'of identity':>13}   CPU µs/row: driver   jvm  workers  slots    sum"
    ]
    for result in results:
        cpu = result["cpu_us_per_row"]
        used = f"{cpu['driver']:>20.2f}{cpu['jvm']:>6.2f}{cpu['workers']:>9.2f}{cpu['slots']:>7.2f}"
        lines.append(
            f"{result['name']:<22}{result['rows_per_s']:>12,}{result['ratio_to_identity']:>13.3f}"
            f"{used}{sum(cpu.values()):>7.2f}"
        )
    return lines


def _latencies(results: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["\nlatency, ms             rows an epoch       p50       p99   samples"]
    lines += [
        f"{result['name'].removeprefix('latency-'):<22}{result['rows_per_epoch']:>15,}{result['p50_ms']:>10,}"
        f"{result['p99_ms']:>10,}{result['samples']:>10}"
        for result in results
    ]
    return lines


def judge(results: Sequence[dict[str, Any]]) -> list[tuple[Target | CostTarget, float, bool]]:
    """Every target whose two contenders were measured: the ratio, and whether it is reached."""
    rates = {(each["load"], each["name"]): each["rows_per_s"] for each in results}
    judged: list[tuple[Target | CostTarget, float, bool]] = []
    for target in TARGETS:
        rate, base = rates.get((target.load, target.name)), rates.get((target.load, target.base))
        if rate and base:
            ratio = rate / base
            judged.append((target, ratio, ratio >= target.ratio))
    costs = {(each["load"], each["name"]): sum(each["cpu_us_per_row"].values()) for each in results}
    for cost in COST_TARGETS:
        mine, other = costs.get((cost.load, cost.name)), costs.get((cost.load, cost.base))
        if mine and other:
            judged.append((cost, mine / other, mine / other <= cost.ratio))
    return judged


def judged(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as plain data: what was to be reached on which load, what was measured, and whether that is enough."""
    return [
        {
            "load": target.load,
            "name": target.name,
            "base": target.base,
            "at_most": isinstance(target, CostTarget),
            "to_reach": target.ratio,
            "measured": round(ratio, 4),
            "reached": reached,
        }
        for target, ratio, reached in judge([each for each in results if "rows_per_s" in each])
    ]


def _targets(results: Sequence[dict[str, Any]]) -> list[str]:
    judged = judge(results)
    if not judged:
        return []
    lines = [f"\n{'target':<57}to reach   measured"]
    for target, ratio, reached in judged:
        words = f"{target.load}: {target.name} / {target.base}"
        if isinstance(target, CostTarget):
            words += ", CPU, at most"
        verdict = "reached" if reached else "missed"
        lines.append(f"{words:<56}{target.ratio:>9g}{ratio:>11.2f}   {verdict}")
    missed = sum(not reached for _, _, reached in judged)
    lines.append(f"{len(judged) - missed} of {len(judged)} targets reached")
    return lines
