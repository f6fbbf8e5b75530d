"""The table of ``make bench-peers``: where sparkstate loses, the rates, and who did not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkstate_tools.verdicts.comparison import answers, measured_of, others_ahead


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


_IN_WORDS = {"whole": "", "each row": ", each row answered", "each key": ", each key of a batch answered"}


def _table(load: str, results: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"\n{load:<34}{'rows/s':>12}{'CPU µs/row':>12}  answers   function  rows of the two runs"]
    measured = sorted(measured_of(results), key=lambda r: (not r["each_row"], -r["rows_per_s"]))
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
    measured, absent = len(measured_of(results)), len(results) - len(measured_of(results))
    wrong = sum(bool(result.get("wrong")) for result in results)
    left = f"{absent} not measured" + (f", {wrong} of them with wrong answers" if wrong else "")
    return f"{'FAIL' if wrong else 'PASS'}  {measured} contenders measured, all with right answers; {left}"
