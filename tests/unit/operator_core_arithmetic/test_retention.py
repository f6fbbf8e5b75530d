"""What age and count take, and what they never take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate_operator.core import retention, settings
from sparkstate_operator.core.retention import ExpiredSnapshot, Limits, Snapshot
from sparkstate_operator.model.snapshot import SnapshotPhase

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def snapshot(number: int, phase: str = "Completed", **more: object) -> Snapshot:
    """The older, the smaller the number; an hour apart."""
    time = NOW - timedelta(hours=100 - number)
    return Snapshot(f"s{number}", phase, time, uri=f"s3://b/{number}", **more)  # type: ignore[arg-type]


FIVE = [snapshot(number) for number in range(95, 100)]


def names(found: tuple[ExpiredSnapshot, ...]) -> list[str]:
    return [one.name for one in found]


def test_without_limits_all_completed_ones_stay() -> None:
    assert retention.expired(FIVE, Limits(), NOW) == ()


def test_the_count_takes_the_oldest() -> None:
    assert names(retention.expired(FIVE, Limits(max_count=2), NOW)) == ["s95", "s96", "s97"]


def test_the_age_takes_what_is_older() -> None:
    found = retention.expired(FIVE, Limits(max_age_s=3 * 3600.0), NOW)
    assert found == (ExpiredSnapshot("s95", "age"), ExpiredSnapshot("s96", "age"))


def test_the_newest_stays_however_old_it_is() -> None:
    assert names(retention.expired(FIVE, Limits(max_age_s=1.0), NOW)) == ["s95", "s96", "s97", "s98"]


def test_a_failed_or_running_one_is_not_the_newest_that_is_kept() -> None:
    newer = [snapshot(100, "Failed"), snapshot(101, "InProgress")]
    assert "s99" not in names(retention.expired([*FIVE, *newer], Limits(max_age_s=1.0, max_count=1), NOW))


def test_a_newer_manual_one_counts_as_the_newest() -> None:
    manual = snapshot(100, periodic=False)
    assert names(retention.expired([*FIVE, manual], Limits(max_age_s=1.0), NOW)) == [
        "s95", "s96", "s97", "s98", "s99",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "in_use"),
    [
        (snapshot(90, pinned=True), ()),
        (snapshot(90, periodic=False), ()),
        (snapshot(90), ("s90",)),
        (snapshot(90), ("s3://b/90",)),
        (snapshot(90, "InProgress"), ()),
        (snapshot(90, "Triggered"), ()),
        (snapshot(90, "Deleting"), ()),
    ],
    ids=["pinned", "manual", "named by a restore", "restored from", "in flight", "triggered", "deleting"],
)
def test_what_is_needed_is_never_taken(kept: Snapshot, in_use: tuple[str, ...]) -> None:
    found = names(retention.expired([*FIVE, kept], Limits(max_age_s=1.0, max_count=1), NOW, in_use))
    assert found == ["s95", "s96", "s97", "s98"]


def test_of_failed_ones_the_newest_few_stay() -> None:
    failed = [snapshot(number, "Failed") for number in range(10, 20)]
    found = retention.expired([*failed, *FIVE], Limits(), NOW)
    assert found == tuple(ExpiredSnapshot(f"s{number}", "failed") for number in range(10, 15))


def test_the_limits_come_from_the_spec() -> None:
    base = {"pythonFile": "/j.py", "image": "i", "checkpointing": {"storage": "s3://b/p"}}
    resolved = settings.resolve({**base, "savepoints": {"maxAge": "24h", "maxCount": 3}})
    assert retention.limits(resolved) == Limits(86_400.0, 3)
    assert retention.limits(settings.resolve(base)) == Limits(None, None)


SNAPSHOTS = st.lists(
    st.builds(
        snapshot,
        st.integers(0, 99),
        st.sampled_from(get_args(SnapshotPhase)),
        periodic=st.booleans(),
        pinned=st.booleans(),
    ),
    unique_by=lambda one: one.name,
    max_size=20,
)


@given(SNAPSHOTS, st.one_of(st.none(), st.floats(0, 400_000)), st.one_of(st.none(), st.integers(1, 5)))
def test_whatever_there_is_the_rules_hold(
    snapshots: list[Snapshot], age: float | None, count: int | None
) -> None:
    gone = set(names(retention.expired(snapshots, Limits(age, count), NOW)))
    by_name = {one.name: one for one in snapshots}
    assert all(by_name[name].periodic and not by_name[name].pinned for name in gone)
    assert all(by_name[name].phase in ("Completed", "Failed") for name in gone)
    completed = [one for one in snapshots if one.phase == "Completed"]
    if completed:
        assert max(completed, key=lambda one: (one.time, one.name)).name not in gone
    left = [one for one in completed if one.periodic and not one.pinned and one.name not in gone]
    assert count is None or len(left) <= count
    assert (
        retention.expired([one for one in snapshots if one.name not in gone], Limits(age, count), NOW) == ()
    )
