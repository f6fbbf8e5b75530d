"""When Spark combines rows: from the figures of the epochs before."""

from __future__ import annotations

import pytest

from sparkstate.spark import fed_rows, graph
from sparkstate.spark.combining import Choice

MANY = 1_000_000


def test_the_first_epoch_and_small_ones_go_one_by_one() -> None:
    assert not Choice().combines
    assert not Choice().after(1_000, 1_000, was_combined=False).combines


def test_an_epoch_behind_a_large_one_is_combined_as_long_as_that_pays() -> None:
    choice = Choice().after(MANY, MANY, was_combined=False)
    for _ in range(3):
        assert choice.combines
        choice = choice.after(MANY, MANY // 24, was_combined=True)
    assert choice.combines
    assert not choice.after(10, 10, was_combined=True).combines
    assert choice.after(10, 10, was_combined=True).after(MANY, MANY, was_combined=False).combines


def test_combining_that_does_not_pay_is_tried_again_after_a_hundred_epochs() -> None:
    choice = Choice(MANY).after(MANY, MANY * 9 // 10, was_combined=True)
    for _ in range(100):
        assert not choice.combines
        choice = choice.after(MANY, MANY, was_combined=False)
    assert choice.combines


def test_epochs_of_timers_alone_say_nothing_about_the_next_rows() -> None:
    many = Choice().after(MANY, MANY, was_combined=False)
    assert many.after(0, 0, was_combined=False).combines
    waits = Choice(MANY).after(MANY, MANY, was_combined=True)
    assert waits.after(0, 0, was_combined=False) == waits


@pytest.mark.parametrize(("is_combined", "wanted"), [(True, 90), (False, 7)])
def test_combined_rows_count_as_the_rows_of_the_job_that_they_stand_for(
    is_combined: bool, wanted: int
) -> None:
    fed = fed_rows.FedRows(
        {0: fed_rows.FedSlot(1, 3), 1: fed_rows.FedSlot(1, 4)}, {}, is_combined=is_combined
    )
    inputs = (graph.Input(keys=("k",), upstream=None, event_time="at"),)
    assert fed_rows.rows_of_job(inputs, fed, 90, 2) == wanted
