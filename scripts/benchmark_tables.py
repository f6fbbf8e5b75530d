"""The tables of a benchmark run, as a page shows them: ``python scripts/benchmark_tables.py``.

``--write`` puts them into the README.

``make bench ARGS='--name readme …'`` and ``make bench-peers`` write the results, on an idle machine. So each figure is
one that a run has printed, and stands with its command, commit, day and machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peer_tables
import run_words

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "README.md"
Row = Mapping[str, Any]
_NAMES = {
    "identity": "Spark identity",
    "identity-defaults": "Spark identity with Spark's own settings",
    "hashmap": "sparkstate, HashMap, per record",
    "hashmap-compiled": "sparkstate, HashMap, per record, compiled path",
    "hashmap-batches": "sparkstate, HashMap, on Arrow batches",
    "hashmap-added": "sparkstate, HashMap, on Arrow batches, one row per key and batch",
    "hashmap-checkpoints": "sparkstate, HashMap, per record, a checkpoint every 2 s",
    "rocksdb": "sparkstate, RocksDB, per record",
    "rocksdb-compiled": "sparkstate, RocksDB, per record, compiled path",
    "rocksdb-batches": "sparkstate, RocksDB, on Arrow batches",
    "rocksdb-added": "sparkstate, RocksDB, on Arrow batches, one row per key and batch",
    "rocksdb-checkpoints": "sparkstate, RocksDB, per record, a checkpoint every 2 s",
    "hashmap-windows": "sparkstate, HashMap, `agg` of tumbling minutes",
    "hashmap-sliding": "sparkstate, HashMap, `agg` of an hour that slides by a minute",
    "rocksdb-windows": "sparkstate, RocksDB, `agg` of tumbling minutes",
    "rocksdb-sliding": "sparkstate, RocksDB, `agg` of an hour that slides by a minute",
    "hashmap-window-records": "sparkstate, HashMap, `aggregate` of tumbling minutes, per record",
    "rocksdb-window-records": "sparkstate, RocksDB, `aggregate` of tumbling minutes, per record",
    "aggregation": "Spark's aggregation in the JVM, RocksDB store, one row per key and epoch",
    "window-aggregation": "Spark's window aggregation in the JVM, RocksDB store",
    "transform-with-state": "Spark's `transformWithState` in Python",
}
_LOADS = {
    "sum": "50,000 keys",
    "distinct": "no key comes twice",
    "windows": "sums per key and minute of event time",
    "large": "state of ten times the managed memory",
}


@dataclass(frozen=True)
class Section:
    """A part of the page, between ``<!-- name -->`` and ``<!-- end of the name -->``, and the results that it shows."""

    name: str
    results: str
    make: Callable[[Mapping[str, Any]], str]

    def document(self) -> dict[str, Any]:
        """The kept results."""
        document: dict[str, Any] = json.loads((RESULTS / self.results).read_text(encoding="utf-8"))
        return document

    def put(self, page: str, document: Mapping[str, Any]) -> str:
        """The page with the tables of a run. Raises ``ValueError`` where a marker is missing."""
        begin, end = f"<!-- {self.name} -->", f"<!-- end of the {self.name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page must have {begin} and {end} once each")
        before, rest = page.split(begin)
        return f"{before}{begin}\n\n{self.make(document)}\n\n{end}{rest.split(end)[1]}"


def with_figures(page: str) -> str:
    """The page with the tables of all kept runs."""
    for section in SECTIONS:
        page = section.put(page, section.document())
    return page


def figures(document: Mapping[str, Any]) -> str:
    """Where the run was made, a table for each load, the latencies, and the targets."""
    results: Sequence[Row] = document["results"]
    rates = [each for each in results if "rows_per_s" in each]
    parts = [f"One run {run_words.place(document)}. {run_words.told_rounds(rates)}"]
    loads = dict.fromkeys(each["load"] for each in rates)
    parts += [_rates(load, [each for each in rates if each["load"] == load]) for load in loads]
    latencies = [each for each in results if "p50_ms" in each]
    if latencies:
        parts.append(_latencies(latencies))
    if document.get("targets"):
        parts.append(_targets(document["targets"]))
    costs = {each["name"]: each["cpu_us_per_row"] for each in rates if each["load"] == "sum"}
    if costs.keys() >= {"identity", *_PARTED}:
        parts.append(_time_of_a_row(costs))
    return "\n\n".join(parts)


def _rates(load: str, results: Sequence[Row]) -> str:
    head = (
        _LOADS[load],
        "rows/s",
        "of identity",
        "slowest to fastest round",
        "CPU µs per row, all processes",
    )
    rows = [
        (
            _NAMES[each["name"]],
            f"{each['rows_per_s']:,}",
            f"{each['ratio_to_identity']:.3g}",
            f"{min(each['rounds']):,} to {max(each['rounds']):,}",
            f"{sum(each['cpu_us_per_row'].values()):.2f}",
        )
        for each in results
    ]
    return run_words.table(head, rows)


def _latencies(results: Sequence[Row]) -> str:
    names = list(dict.fromkeys(each["name"] for each in results))
    head = ("rows per epoch", *(f"{_NAMES[name.removeprefix('latency-')]}, p50, p99" for name in names))
    by_rows: dict[int, dict[str, Row]] = {}
    for each in results:
        by_rows.setdefault(each["rows_per_epoch"], {})[each["name"]] = each
    rows = [
        (
            f"{count:,}",
            *(
                f"{found[name]['p50_ms']:,} ms, {found[name]['p99_ms']:,} ms" if name in found else ""
                for name in names
            ),
        )
        for count, found in by_rows.items()
    ]
    return run_words.table(head, rows)


_PARTED = tuple(f"{backend}{way}" for backend in ("hashmap", "rocksdb") for way in ("", "-batches", "-added"))


def _time_of_a_row(costs: Mapping[str, Mapping[str, float]]) -> str:
    """A paragraph on the processor time of a row: identity's, and that of the slots on top of it."""
    whole = {name: sum(parts.values()) for name, parts in costs.items()}
    record, batches, added, *rocksdb = (f"{costs[name]['slots']:.2f}" for name in _PARTED)
    return (
        f"This is where the time goes. With 50,000 keys, a row takes {whole['identity']:.2f} µs of processor time "
        f"through identity, {costs['identity']['jvm']:.2f} of them in Spark's JVM. HashMap takes "
        f"{whole['hashmap']:.2f} µs per record. {record} of them are in the slots, where Python calls the function, "
        f"reads and writes its state, and makes its rows, and {costs['hashmap']['jvm']:.2f} in the JVM. On Arrow "
        f"batches the slots take {batches} µs, and {added} where the function puts out one row per key and batch. "
        f"With RocksDB they take {rocksdb[0]}, {rocksdb[1]} and {rocksdb[2]} µs instead."
    )


def _targets(targets: Sequence[Row]) -> str:
    rows = [
        (
            target_of(each),
            _TO_REACH[each["unit"]].format(to_reach=each["to_reach"], base=_NAMES[each["base"]]),
            f"{each['measured']:.3g}",
            "reached" if each["reached"] else "missed",
        )
        for each in targets
    ]
    return run_words.table(("", "to reach", "measured", ""), rows)


_TO_REACH = {
    "x": "{to_reach:g} times {base}",
    "x CPU": "at most {to_reach:g} times {base}, processor time",
    "ms p50": "p50 at most {to_reach:g} ms above {base}",
    "x p50": "p99 at most {to_reach:g} times p50",
}


def target_of(target: Row) -> str:
    """The load and the contender of a target, in words."""
    load = _LOADS.get(target["load"]) or f"{target['load'].removeprefix('latency of ')} rows per epoch"
    return f"{load}: {_NAMES[target['name']]}"


SECTIONS = (
    Section("figures", "readme.json", figures),
    Section("figures of other engines", "peers.json", peer_tables.figures),
)


def main(arguments: Sequence[str]) -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    if parser.parse_args(arguments).write:
        PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("\n\n".join(section.make(section.document()) for section in SECTIONS))


if __name__ == "__main__":
    main(sys.argv[1:])
