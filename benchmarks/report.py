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


@dataclass(frozen=True)
class LatencyTarget:
    """With epochs of ``rows`` rows, p50 of ``name`` should be at most ``above_ms`` above that of ``base``, and its
    p99 at most ``spread`` times its p50."""

    name: str
    base: str = "identity"
    rows: int = 1_000
    above_ms: int = 60
    spread: float = 2.0


COST_TARGETS = (
    CostTarget("hashmap-sliding", "hashmap-windows", 1.5, "windows"),
    CostTarget("rocksdb-sliding", "rocksdb-windows", 1.5, "windows"),
)
LATENCY_TARGETS = (LatencyTarget("hashmap"), LatencyTarget("rocksdb"))
TARGETS = (
    Target("hashmap", "identity", 0.60),
    Target("rocksdb", "identity", 0.55),
    Target("hashmap-compiled", "identity", 0.60),
    Target("rocksdb-compiled", "identity", 0.55),
    Target("hashmap", "transform-with-state", 100),
    Target("rocksdb", "transform-with-state", 100),
    Target("hashmap-batches", "identity", 1.0),
    Target("rocksdb-batches", "identity", 0.9),
    Target("hashmap-added", "aggregation", 1.5),
    Target("rocksdb-added", "aggregation", 1.5),
    Target("hashmap-batches", "identity", 0.6, "distinct"),
    Target("rocksdb-batches", "identity", 0.3, "distinct"),
    Target("rocksdb", "identity", 0.2, "large"),
    Target("rocksdb-batches", "identity", 0.2, "large"),
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
    lines += _targets(results)
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


@dataclass(frozen=True)
class Judgement:
    """A target as data. ``unit``: of rate ("x"), processor time ("x CPU") or milliseconds ("ms p50", "x p50")."""

    load: str
    name: str
    base: str
    unit: str
    to_reach: float
    measured: float

    @property
    def at_most(self) -> bool:
        """Whether less is better."""
        return self.unit != "x"

    @property
    def reached(self) -> bool:
        """Whether it is enough."""
        return self.measured <= self.to_reach if self.at_most else self.measured >= self.to_reach


def judge(results: Sequence[dict[str, Any]]) -> list[Judgement]:
    """Every target whose two contenders were measured."""
    measured = [each for each in results if "rows_per_s" in each]
    rates = {(each["load"], each["name"]): each["rows_per_s"] for each in measured}
    costs = {(each["load"], each["name"]): sum(each["cpu_us_per_row"].values()) for each in measured}
    judged = [
        Judgement(each.load, each.name, each.base, unit, each.ratio, mine / other)
        for targets, unit, found in ((TARGETS, "x", rates), (COST_TARGETS, "x CPU", costs))
        for each in targets
        if (mine := found.get((each.load, each.name))) and (other := found.get((each.load, each.base)))
    ]
    latencies = {
        (each["rows_per_epoch"], each["name"].removeprefix("latency-")): each
        for each in results
        if "p50_ms" in each
    }
    for target in LATENCY_TARGETS:
        slow, fast = (latencies.get((target.rows, name)) for name in (target.name, target.base))
        if slow and fast:
            load, above = f"latency of {target.rows:,}", slow["p50_ms"] - fast["p50_ms"]
            judged.append(Judgement(load, target.name, target.base, "ms p50", target.above_ms, above))
            spread = slow["p99_ms"] / slow["p50_ms"]
            judged.append(Judgement(load, target.name, target.name, "x p50", target.spread, spread))
    return judged


def judged(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as plain data: what was to be reached on which load, what was measured, and whether that is enough."""
    return [
        {
            "load": each.load,
            "name": each.name,
            "base": each.base,
            "unit": each.unit,
            "at_most": each.at_most,
            "to_reach": each.to_reach,
            "measured": round(each.measured, 4),
            "reached": each.reached,
        }
        for each in judge(results)
    ]


_WORDS = {
    "x": "{load}: {name} / {base}",
    "x CPU": "{load}: {name} / {base}, CPU, at most",
    "ms p50": "{load} rows: {name} - {base}, p50, at most ms",
    "x p50": "{load} rows: {name}, p99 / p50, at most",
}


def _targets(results: Sequence[dict[str, Any]]) -> list[str]:
    judged = judge(results)
    if not judged:
        return []
    lines = [f"\n{'target':<57}to reach   measured"]
    for each in judged:
        words = _WORDS[each.unit].format(load=each.load, name=each.name, base=each.base)
        verdict = "reached" if each.reached else "missed"
        lines.append(f"{words:<56}{each.to_reach:>9g}{each.measured:>11.2f}   {verdict}")
    missed = sum(not each.reached for each in judged)
    lines.append(f"{len(judged) - missed} of {len(judged)} targets reached")
    return lines
