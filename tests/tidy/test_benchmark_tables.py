"""The tables of a benchmark run: figures as they were measured, and a target that was missed says so."""

from __future__ import annotations

from typing import Any

import benchmark_tables
import peer_tables
import pytest
from support.examples import example

contenders = example.load(example.ROOT / "benchmarks" / "peers" / "contenders.py")
loads = example.load(example.ROOT / "benchmarks" / "peers" / "loads.py")


def rate(load: str, name: str, rounds: list[int], ratio: float) -> dict[str, Any]:
    return {
        "name": name,
        "load": load,
        "rows_per_s": sorted(rounds)[len(rounds) // 2],
        "ratio_to_identity": ratio,
        "rounds": rounds,
        "cpu_us_per_row": {"driver": 0.1, "jvm": 0.5, "workers": 0.25, "slots": 0.0},
    }


def latency(name: str, rows: int, p50: int, p99: int) -> dict[str, Any]:
    return {"name": f"latency-{name}", "rows_per_epoch": rows, "samples": 9, "p50_ms": p50, "p99_ms": p99}


DOCUMENT = {
    "command": "make bench ARGS='--name readme'",
    "commit": "0123abcde",
    "date": "2026-01-31",
    "machine": "2 cores of a processor, 24 GiB",
    "versions": "Python 3.11.7, Spark 4.3.0",
    "results": [
        rate("sum", "identity", [1_500_000, 1_600_001, 1_700_000], 1.0),
        rate("sum", "hashmap", [800_000, 900_000, 700_000], 0.5),
        rate("large", "rocksdb", [46_800], 0.0729),
        latency("identity", 1000, 144, 198),
        latency("hashmap", 1000, 1187, 1242),
        latency("identity", 100_000, 244, 365),
    ],
    "targets": [
        {
            "load": "sum",
            "name": "hashmap",
            "base": "identity",
            "unit": "x",
            "at_most": False,
            "to_reach": 0.6,
            "measured": 0.5,
            "reached": False,
        },
        {
            "load": "windows",
            "name": "rocksdb-sliding",
            "base": "rocksdb-windows",
            "unit": "x CPU",
            "at_most": True,
            "to_reach": 1.5,
            "measured": 1.444,
            "reached": True,
        },
        {
            "load": "latency of 1,000",
            "name": "rocksdb",
            "base": "identity",
            "unit": "ms p50",
            "at_most": True,
            "to_reach": 60,
            "measured": 51,
            "reached": True,
        },
    ],
}


def test_each_load_has_a_table_with_every_contender_and_its_rounds() -> None:
    text = benchmark_tables.figures(DOCUMENT)
    assert "| Spark identity | 1,600,001 | 1 | 1,500,000 to 1,700,000 | 0.85 |" in text
    assert "| sparkstate, HashMap, per record | 800,000 | 0.5 | 700,000 to 900,000 | 0.85 |" in text
    assert "| sparkstate, RocksDB, per record | 46,800 | 0.0729 | 46,800 to 46,800 | 0.85 |" in text
    assert text.index("| 50,000 keys |") < text.index("| state of ten times the managed memory |")


def test_command_commit_day_and_machine_come_first() -> None:
    first = benchmark_tables.figures(DOCUMENT).split("\n")[0]
    for known in ("command", "commit", "date", "machine", "versions"):
        assert str(DOCUMENT[known]) in first
    assert "medians of 3 alternating rounds" in first


def test_latencies_have_a_column_for_each_contender_also_where_one_was_not_measured() -> None:
    text = benchmark_tables.figures(DOCUMENT)
    assert "| 1,000 | 144 ms, 198 ms | 1,187 ms, 1,242 ms |" in text
    assert "| 100,000 | 244 ms, 365 ms |  |" in text


def test_a_target_says_whether_it_was_missed() -> None:
    lines = benchmark_tables.figures(DOCUMENT).split("\n")
    (missed,) = (line for line in lines if line.endswith("| missed |"))
    assert missed == (
        "| 50,000 keys: sparkstate, HashMap, per record | 0.6 times Spark identity | 0.5 | missed |"
    )
    cost, latency = (line for line in lines if line.endswith("| reached |"))
    assert "at most 1.5 times" in cost
    assert "| 1.44 |" in cost
    assert latency == (
        "| 1,000 rows per epoch: sparkstate, RocksDB, per record "
        "| p50 at most 60 ms above Spark identity | 51 | reached |"
    )


def test_the_time_of_a_row_is_that_of_the_run() -> None:
    names = (
        "identity",
        *(f"{one}{way}" for one in ("hashmap", "rocksdb") for way in ("", "-batches", "-added")),
    )
    results = [
        {**rate("sum", name, [9], 1.0), "cpu_us_per_row": {"jvm": 1.0, "slots": number / 10}}
        for number, name in enumerate(names)
    ]
    told = benchmark_tables.figures({**DOCUMENT, "results": results}).split("\n\n")[-1]
    assert "a row takes 1.00 µs of processor time through identity" in told
    assert "HashMap takes 1.10 µs per record. 0.10 of them are in the slots" in told
    assert "On Arrow batches the slots take 0.20 µs, and 0.30 where" in told
    assert told.endswith("With RocksDB they take 0.40, 0.50 and 0.60 µs instead.")


def test_each_missed_target_of_the_kept_run_is_explained_with_its_figure() -> None:
    page = (benchmark_tables.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    begin = page.index("## Why targets are missed")
    rows = page[begin : page.index("\n## ", begin + 1)].splitlines()
    for target in benchmark_tables.SECTIONS[0].document()["targets"]:
        if not target["reached"]:
            start = f"| {benchmark_tables.target_of(target)} | {target['measured']:.3g}"
            assert any(row.startswith(start) for row in rows), start


def test_the_tables_replace_what_stands_between_the_markers() -> None:
    section = benchmark_tables.Section("figures", "readme.json", benchmark_tables.figures)
    page = "before\n<!-- figures -->\nold\n<!-- end of the figures -->\nafter\n"
    made = section.put(page, DOCUMENT)
    assert "old" not in made
    assert made.startswith("before\n")
    assert made.endswith("<!-- end of the figures -->\nafter\n")
    assert section.put(made, DOCUMENT) == made


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="once each"):
        benchmark_tables.SECTIONS[0].put("a page", DOCUMENT)


def test_the_readme_has_the_figures_of_the_kept_runs() -> None:
    page = benchmark_tables.PAGE.read_text(encoding="utf-8")
    assert page == benchmark_tables.with_figures(page), (
        "write the tables anew: python scripts/benchmark_tables.py --write"
    )


def peer(name: str, load: str, rows: int, cpu_us: float, **given: Any) -> dict[str, Any]:
    rates = {"rows_per_s": rows, "cpu_us_per_row": cpu_us, "rounds": [[rows, cpu_us]]}
    return {"name": name, "load": load, "each_row": True, "whole": False, **rates, **given}


PEERS_RUN = {
    "command": "make bench-peers ARGS='--rounds 1'",
    "commit": "0123abcde",
    "date": "2026-01-31",
    "machine": "2 cores of a processor, 24 GiB",
    "versions": "Python 3.11.7, Spark 4.3.0",
    "peers": {"flink": "2.3.0"},
    "results": [
        peer("sparkstate-hashmap", "q5", 400_000, 8.0, whole=True),
        peer("flink-sql-hashmap", "q5", 200_000, 7.0, whole=True),
        peer("sparkstate-hashmap", "sum", 900_000, 2.0),
        peer("flink-sql-hashmap", "sum", 1_800_000, 1.0),
        peer("bytewax", "sum", 50_000, 30.0),
        peer("sparkstate-hashmap-added", "sum", 1_000_000, 1.1, each_row=False),
        {"name": "quix-streams", "load": "sum", "each_row": True, "reason": "no broker"},
    ],
}
PEERS = {"runs": [PEERS_RUN]}


def test_a_loss_is_told_first_by_rate_or_by_processor_time() -> None:
    text = peer_tables.figures(PEERS)
    losses = text[text.index("Where sparkstate loses:") : text.index("\n\n| rows/s")].split("\n")[2:]
    assert losses == [
        "- running sum, each row is answered: Flink SQL, heap (2.00 times the rate, 0.50 of the processor time).",
        "- q5, hot items: Flink SQL, heap (0.50 times the rate, 0.88 of the processor time).",
    ]


def test_other_engines_are_rows_and_loads_are_columns() -> None:
    text = peer_tables.figures(PEERS)
    assert "| sparkstate, HashMap | each row | 900,000, 2.00 |" in text
    assert "| sparkstate, HashMap, on Arrow batches | each key | 1,000,000, 1.10 |" in text
    assert "| sparkstate, HashMap | 400,000, 8.00 |" in text
    assert text.endswith("Not measured: Quix Streams (running sum): no broker.")


def test_one_run_stands_first_with_its_command_and_versions() -> None:
    first = peer_tables.figures(PEERS).split("\n")[0]
    assert first.startswith("One run of `make bench-peers ARGS='--rounds 1'` on 2026-01-31, commit 0123abcde")
    assert first.endswith("with Python 3.11.7, Spark 4.3.0, flink 2.3.0. Each rate is of one round.")


def test_each_of_several_runs_names_the_loads_that_it_measured() -> None:
    later = {**PEERS_RUN, "commit": "fedcba987", "results": [peer("sparkstate-hashmap", "large", 9, 9.0)]}
    told = peer_tables.figures({"runs": [PEERS_RUN, later]}).split("\n\n")
    assert told[0].startswith("`sum`, `q5`: a run of")
    assert told[1].startswith("`large`: a run of")
    assert "commit fedcba987" in told[1]
    assert told[2].startswith("Where sparkstate loses:")


def test_each_engine_and_load_of_the_comparison_has_a_name() -> None:
    assert set(contenders.CONTENDERS) <= set(peer_tables.ENGINES)
    assert set(loads.LOADS) == set(peer_tables.LOADS)
