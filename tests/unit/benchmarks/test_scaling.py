"""What `make bench-nodes` makes of two readings of a job: costs per row, what is refused, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.examples import example

scaling = example.load(example.ROOT / "benchmarks" / "scaling.py")

METRICS = """\
# HELP sparkstate_epoch The last committed epoch.
# TYPE sparkstate_epoch gauge
sparkstate_epoch 9.0
sparkstate_rows_total 8e+06
sparkstate_checkpoints_completed_total 3.0
sparkstate_incarnation 1.0
sparkstate_slot_up{slot="0"} 1.0
"""
ROWS = 1_000


def reading(epoch: int, driver_us: int, executors_us: tuple[int, int], **told: int) -> Any:
    """A job on two executors whose driver told of this epoch a moment later."""
    said = {
        "epoch": epoch,
        "rows": epoch * ROWS,
        "checkpoints": epoch // 2,
        "incarnation": 1,
        **told,
    }
    pods = {"driver": driver_us, "exec-1": executors_us[0], "exec-2": executors_us[1]}
    return scaling.Reading(float(epoch), epoch, pods, scaling.Told(**said))


BEFORE, AFTER = reading(4, 100, (5_000, 7_000)), reading(8, 500, (9_000, 10_000))


def result(slots: int, executors_us: float, backend: str = "hashmap") -> dict[str, Any]:
    cost = scaling.Cost(rows=80_000, seconds=2.0, checkpoints=3, driver=0.25, executors=executors_us)
    found: dict[str, Any] = scaling.result(backend, slots, 1 + slots, [cost])
    return found


def test_the_cost_of_a_row_is_what_the_pods_used_between_the_ends_of_two_epochs() -> None:
    cost = scaling.difference(BEFORE, AFTER, "driver", ROWS)
    assert cost == scaling.Cost(rows=4_000, seconds=4.0, checkpoints=2, driver=0.1, executors=1.75)


def test_a_driver_that_commits_an_epoch_before_it_is_asked_changes_nothing() -> None:
    later = replace(AFTER, told=replace(AFTER.told, epoch=9, rows=9 * ROWS))
    assert scaling.difference(BEFORE, later, "driver", ROWS).rows == 4_000


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (reading(4, 100, (5_000, 7_000)), "no epoch was answered between the readings"),
        (reading(8, 500, (9_000, 10_000), incarnation=2), "the job was restored"),
        (reading(8, 500, (9_000, 10_000), rows=7_999), "counted 3999 rows in 4 epochs"),
    ],
)
def test_readings_that_do_not_measure_the_load_are_refused(after: Any, said: str) -> None:
    with pytest.raises(scaling.Unusable, match=said):
        scaling.difference(BEFORE, after, "driver", ROWS)


def test_the_numbers_of_a_driver_are_read_from_its_metrics() -> None:
    assert scaling.told(METRICS) == scaling.Told(epoch=9, rows=8_000_000, checkpoints=3, incarnation=1)


def test_metrics_before_the_first_epoch_are_refused_by_name() -> None:
    with pytest.raises(scaling.Unusable, match="lack sparkstate_epoch; wait"):
        scaling.told(METRICS.replace("sparkstate_epoch 9.0\n", ""))


@pytest.mark.parametrize(
    ("log", "epoch"),
    [
        ("", None),
        ("2026-01-01T00:00:00Z stdout F answered epoch 7\nstdout F more\n", 7),
        ("stdout F answered epoch 7\nstdout F answered epoch 1", 7),
    ],
)
def test_an_epoch_is_answered_once_its_line_is_whole(log: str, epoch: int | None) -> None:
    assert scaling.newest_epoch(log, "answered epoch ") == epoch


def test_the_middle_round_counts_and_its_distance_to_the_others_is_told() -> None:
    rounds = [
        scaling.Cost(rows=10, seconds=1.0, checkpoints=1, driver=0.1, executors=each)
        for each in (2.0, 2.5, 2.2)
    ]
    found = scaling.result("rocksdb", 2, 3, rounds)
    assert (found["executors_us_per_row"], found["spread"]) == (2.2, 0.227)
    assert (found["rows"], found["checkpoints"]) == (30, 3)


@pytest.mark.parametrize(("with_eight", "is_flat", "word"), [(2.5, True, "reached"), (2.51, False, "MISSED")])
def test_the_executors_are_judged_against_the_fewest_slots_of_their_backend(
    with_eight: float, is_flat: bool, word: str
) -> None:
    measured = [result(8, with_eight), result(1, 2.0), result(1, 1.0, "rocksdb"), result(8, 1.0, "rocksdb")]
    related = scaling.relate(measured)
    assert [each["of_fewest"] for each in related] == [with_eight / 2.0, 1.0, 1.0, 1.0]
    assert scaling.flat(related) is is_flat
    shown = scaling.text(related, 2).splitlines()
    assert shown[0].startswith("2 cores for all pods")
    assert shown[2].split() == [
        *("hashmap", "8", "9", "80,000", "40,000", "3", "0.25", f"{with_eight:.2f}"),
        *(f"{with_eight + 0.25:.2f}", f"{with_eight / 2.0:.2f}"),
    ]
    assert shown[-1].startswith(f"{word}: executors take at most 1.25 times")
