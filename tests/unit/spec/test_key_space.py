"""The key groups of a job that begins without state, and the shards that they allow."""

from __future__ import annotations

import pytest

from sparkstate_spec import key_space


@pytest.mark.parametrize(
    ("slots", "expected"),
    [(1, 128), (64, 128), (85, 128), (86, 256), (128, 256), (1000, 2048), (20000, 32768), (30000, 32768)],
)
def test_the_default_max_parallelism_is_flinks(slots: int, expected: int) -> None:
    # Flink's KeyGroupRangeAssignment: the power of two at or above 1.5 x parallelism, from 128 to 32768.
    assert key_space.default_max_parallelism(slots) == expected


@pytest.mark.parametrize(
    ("slots", "max_parallelism", "shards"),
    [(2, None, None), (2, None, 128), (86, None, 256), (2, 64, 128), (2, 200, 200)],
    ids=["no shards", "as many", "as many of more slots", "a rule compares them", "key groups by the spec"],
)
def test_shards_that_a_new_job_may_have_are_no_finding(
    slots: int, max_parallelism: int | None, shards: int | None
) -> None:
    assert key_space.beyond_default(slots, max_parallelism, shards) is None


def test_more_shards_than_key_groups_are_told_with_the_number_and_the_remedy() -> None:
    assert str(key_space.beyond_default(2, None, 129)) == (
        "spec.shards: there are more shards than key groups: a job that begins without state has 128 of them with "
        "slots 2 and no maxParallelism; lower shards, or give a maxParallelism of at least 129 (it is 129)"
    )
