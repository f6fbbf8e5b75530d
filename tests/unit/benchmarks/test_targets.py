"""Targets of ``make bench``: each is judged by its own unit, and only where both contenders were measured."""

from __future__ import annotations

from typing import Any

import pytest
from support.examples import example

report = example.load(example.ROOT / "benchmarks" / "report.py")


TO_REACH = {
    ("sum", "hashmap", "identity"): 0.6,
    ("sum", "rocksdb", "identity"): 0.55,
    ("sum", "hashmap-compiled", "identity"): 0.6,
    ("sum", "rocksdb-compiled", "identity"): 0.55,
    ("sum", "hashmap", "transform-with-state"): 100,
    ("sum", "rocksdb", "transform-with-state"): 100,
    ("sum", "hashmap-batches", "identity"): 1.0,
    ("sum", "rocksdb-batches", "identity"): 0.9,
    ("sum", "hashmap-added", "aggregation"): 1.5,
    ("sum", "rocksdb-added", "aggregation"): 1.5,
    ("distinct", "hashmap-batches", "identity"): 0.6,
    ("distinct", "rocksdb-batches", "identity"): 0.3,
    ("large", "rocksdb", "identity"): 0.2,
    ("large", "rocksdb-batches", "identity"): 0.2,
    ("windows", "hashmap-windows", "window-aggregation"): 1.5,
    ("windows", "rocksdb-windows", "window-aggregation"): 1.5,
}


def test_no_target_is_lowered_unseen() -> None:
    assert {(each.load, each.name, each.base): each.ratio for each in report.TARGETS} == TO_REACH
    assert {(each.name, each.base): each.ratio for each in report.COST_TARGETS} == {
        ("hashmap-sliding", "hashmap-windows"): 1.5,
        ("rocksdb-sliding", "rocksdb-windows"): 1.5,
    }
    assert {(each.name, each.rows, each.above_ms, each.spread) for each in report.LATENCY_TARGETS} == {
        ("hashmap", 1_000, 60, 2.0),
        ("rocksdb", 1_000, 60, 2.0),
    }


def latency(name: str, p50: int, p99: int) -> dict[str, Any]:
    return {"name": f"latency-{name}", "rows_per_epoch": 1_000, "samples": 60, "p50_ms": p50, "p99_ms": p99}


def rate(load: str, name: str, rows: int, cpu_us: float) -> dict[str, Any]:
    cpu = {"driver": 0.0, "jvm": cpu_us, "workers": 0.0, "slots": 0.0}
    return {
        "load": load,
        "name": name,
        "rows_per_s": rows,
        "ratio_to_identity": 1.0,
        "cpu_us_per_row": cpu,
    }


@pytest.mark.parametrize(
    ("p50", "p99", "reached"),
    [(260, 520, [True, True]), (261, 520, [False, True]), (260, 521, [True, False])],
)
def test_small_epochs_are_judged_by_what_is_above_identity_and_by_their_spread(
    p50: int, p99: int, reached: list[bool]
) -> None:
    judged = report.judged([latency("identity", 200, 300), latency("rocksdb", p50, p99)])
    assert [(each["unit"], each["reached"]) for each in judged] == [
        ("ms p50", reached[0]),
        ("x p50", reached[1]),
    ]
    assert judged[0]["measured"] == p50 - 200


def test_rates_have_to_be_as_high_and_costs_as_low() -> None:
    results = [
        rate("windows", "hashmap-windows", 900, 2.0),
        rate("windows", "hashmap-sliding", 400, 3.1),
        rate("windows", "window-aggregation", 600, 4.0),
    ]
    found = {each["unit"]: (each["measured"], each["reached"]) for each in report.judged(results)}
    assert found == {"x": (1.5, True), "x CPU": (1.55, False)}
    assert "1 of 2 targets reached" in report.text(results)


def test_a_target_without_its_base_is_not_judged() -> None:
    assert not report.judged([latency("rocksdb", 1, 1), rate("sum", "rocksdb", 1, 1.0)])
