"""The tables of ``make bench-peers`` for the README: where sparkstate loses, then rates and processor time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import run_words

from sparkstate_tools.verdicts import comparison

LOADS = {
    "sum": "running sum",
    "distinct": "no key twice",
    "large": "ten times the managed memory",
    "session": "sessions",
    "q3": "q3, join of two streams",
    "q5": "q5, hot items",
    "q7": "q7, highest bid",
    "q8": "q8, join by window",
    "q11": "q11, sessions",
    "q12": "q12, counts",
}
"""In the order of the tables. The first four are of one table, Nexmark's queries of another."""
_ANSWERS = {
    "each row": "each row is answered",
    "each key": "each key of a batch is answered once",
    "whole": "",
}
ENGINES = {
    "sparkstate-hashmap": "sparkstate, HashMap",
    "sparkstate-rocksdb": "sparkstate, RocksDB",
    "sparkstate-hashmap-batches": "sparkstate, HashMap, on Arrow batches",
    "sparkstate-rocksdb-batches": "sparkstate, RocksDB, on Arrow batches",
    "sparkstate-hashmap-added": "sparkstate, HashMap, on Arrow batches",
    "sparkstate-rocksdb-added": "sparkstate, RocksDB, on Arrow batches",
    "flink-sql-hashmap": "Flink SQL, heap",
    "flink-sql-rocksdb": "Flink SQL, RocksDB",
    "flink-sql-hashmap-mini-batch": "Flink SQL, heap, mini-batches",
    "flink-sql-rocksdb-mini-batch": "Flink SQL, RocksDB, mini-batches",
    "flink-datastream-hashmap": "Flink DataStream in Java, heap",
    "flink-datastream-rocksdb": "Flink DataStream in Java, RocksDB",
    "pyflink-process-hashmap": "PyFlink in processes, heap",
    "pyflink-process-rocksdb": "PyFlink in processes, RocksDB",
    "pyflink-thread-hashmap": "PyFlink in threads, heap",
    "pyflink-thread-rocksdb": "PyFlink in threads, RocksDB",
    "bytewax": "Bytewax",
    "quix-streams": "Quix Streams",
    "spark-windows": "Spark's own windows and joins",
    "spark-transform-with-state": "Spark's `transformWithState`, rows",
    "spark-transform-with-state-pandas": "Spark's `transformWithState`, pandas",
}
Row = Mapping[str, Any]


def figures(document: Mapping[str, Any]) -> str:
    """How each load was measured, where sparkstate loses, and the tables."""
    runs: Sequence[Row] = document["runs"]
    results: list[Row] = [result for run in runs for result in run["results"]]
    parts = [_told(run, alone=len(runs) == 1) for run in runs]
    parts.append("Where sparkstate loses:\n\n" + "\n".join(_losses(results)))
    groups = [
        [each for each in results if each["load"].startswith("q") is of_nexmark]
        for of_nexmark in (False, True)
    ]
    parts += [_pivot(group) for group in groups if group]
    reasons = dict.fromkeys(
        f"{ENGINES[each['name']]} ({LOADS[each['load']]}): {each['reason']}"
        for each in _ordered(results)
        if "reason" in each
    )
    if reasons:
        parts.append("Not measured: " + "; ".join(reasons) + ".")
    return "\n\n".join(parts)


def _told(run: Row, *, alone: bool) -> str:
    """Where and how a run was made. Of several, each names its loads."""
    results: Sequence[Row] = run["results"]
    place = run_words.place(run, *(f"{name} {version}" for name, version in run["peers"].items()))
    loads = ", ".join(f"`{load}`" for load in dict.fromkeys(each["load"] for each in _ordered(results)))
    return f"{'One run' if alone else f'{loads}: a run'} {place}. {run_words.told_rounds(results)}" + (
        f" {run['note']}" if run.get("note") else ""
    )


def _losses(results: Sequence[Row]) -> list[str]:
    """A line for each load and kind of answers: the others that are faster, or take less processor time, than the best
    of ours."""
    lines = []
    for load, kind in dict.fromkeys((each["load"], comparison.answers(each)) for each in _ordered(results)):
        told = [
            f"{ENGINES[each.name]} ({each.rate:.2f} times the rate, {each.cost:.2f} of the processor time)"
            for each in comparison.others_ahead(load, kind, results) or ()
        ]
        if told:
            words = f", {_ANSWERS[kind]}" if _ANSWERS[kind] else ""
            lines.append(f"- {LOADS[load]}{words}: {'; '.join(told)}.")
    return lines or ["- nowhere among what was measured."]


def _ordered(results: Sequence[Row]) -> list[Row]:
    order = [*LOADS]
    return sorted(results, key=lambda each: order.index(each["load"]))


def _pivot(results: Sequence[Row]) -> str:
    """A row for each engine and kind of answers, a column for each load."""
    loads = [load for load in LOADS if any(each["load"] == load for each in results)]
    cells = {
        (
            comparison.answers(each),
            each["name"],
            each["load"],
        ): f"{each['rows_per_s']:,}, {each['cpu_us_per_row']:.2f}"
        for each in results
        if "rows_per_s" in each
    }
    is_mixed = any(answers != "whole" for answers, *_ in cells)
    head = ["rows/s, CPU µs per row", *(["answers"] if is_mixed else []), *(LOADS[load] for load in loads)]
    lines = []
    for answers, name in dict.fromkeys((answers, name) for answers, name, _ in sorted(cells, key=_place)):
        rates = [cells.get((answers, name, load), "") for load in loads]
        lines.append([ENGINES[name], *([answers] if is_mixed else []), *rates])
    return run_words.table(head, lines)


def _place(cell: tuple[str, str, str]) -> tuple[int, int]:
    answers, name, _ = cell
    return ["each row", "whole", "each key"].index(answers), [*ENGINES].index(name)
