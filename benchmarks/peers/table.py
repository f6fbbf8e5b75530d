"""The table of ``make bench-peers``: where sparkstate loses, the rates, and who did not run."""

from __future__ import annotations

from collections.abc import Sequence
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
    for load, answers in dict.fromkeys((r["load"], _answers(r)) for r in results):
        group = [r for r in _measured(results) if (r["load"], _answers(r)) == (load, answers)]
        ours = [r for r in group if r["name"].startswith(OURS)]
        others = [r for r in group if not r["name"].startswith(OURS)]
        what = f"{load}{_IN_WORDS[answers]}"
        if not ours:
            lines.append(f"  {what}: unknown, no row of sparkstate was measured")
            continue
        fastest = max(ours, key=lambda r: r["rows_per_s"])
        cheapest = min(ours, key=lambda r: r["cpu_us_per_row"])
        for other in sorted(others, key=lambda r: -r["rows_per_s"]):
            faster = other["rows_per_s"] / fastest["rows_per_s"]
            cheaper = cheapest["cpu_us_per_row"] / other["cpu_us_per_row"]
            if faster > 1:
                words = f"{faster:.2f} times the rate of {fastest['name']}"
                lines.append(f"  {what}: {other['name']} has {words}")
            if cheaper > 1:
                words = f"{1 / cheaper:.2f} of the CPU time of {cheapest['name']}"
                lines.append(f"  {what}: {other['name']} takes {words}")
    return lines if len(lines) > 1 else [f"{lines[0]}: nowhere among what was measured"]


def _answers(result: dict[str, Any]) -> str:
    """When there is an answer. Nexmark's queries answer a window, or a pair, when it is complete."""
    if result.get("whole"):
        return "whole"
    return "each row" if result["each_row"] else "each key"


_IN_WORDS = {"whole": "", "each row": ", each row answered", "each key": ", each key of a batch answered"}


def _measured(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [result for result in results if "rows_per_s" in result]


def _table(load: str, results: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"\n{load:<34}{'rows/s':>12}{'CPU µs/row':>12}  answers   function  rows of the two runs"]
    measured = sorted(_measured(results), key=lambda r: (not r["each_row"], -r["rows_per_s"]))
    for result in measured:
        runs = " and ".join(f"{rows:,}" for rows in result["lengths"])
        lines.append(
            f"{result['name']:<34}{result['rows_per_s']:>12,}{result['cpu_us_per_row']:>12.2f}  "
            f"{_answers(result):<10}{result['user_code']:<10}{runs}"
        )
    lines += [f"{r['name']:<34}not measured: {r['reason']}" for r in results if "reason" in r]
    return lines


def verdict(results: Sequence[dict[str, Any]]) -> str:
    """One line: how many were measured; the answers of all of those were right."""
    measured, absent = len(_measured(results)), len(results) - len(_measured(results))
    wrong = sum(bool(result.get("wrong")) for result in results)
    left = f"{absent} not measured" + (f", {wrong} of them with wrong answers" if wrong else "")
    return f"{'FAIL' if wrong else 'PASS'}  {measured} contenders measured, all with right answers; {left}"
