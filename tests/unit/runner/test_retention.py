"""Which savepoints go: by age, by count, never a person's own and never the newest."""

from hypothesis import given
from hypothesis import strategies as st

from sparkstate.runner import retention

DAY = 86_400


def kept(number: int, trigger: str = "periodic", day: int | None = None) -> retention.KeptSavepoint:
    completed = (number if day is None else day) * DAY * 1000
    return retention.KeptSavepoint(f"file:///s/savepoint-{number}", f"{trigger}-{number}", completed)


def gone(savepoints: list[retention.KeptSavepoint], **limits) -> list[str]:
    fields = {"now_ms": 10 * DAY * 1000, "max_age_s": None, "max_count": None} | limits
    return [one.url.rpartition("-")[2] for one in retention.expired(savepoints, **fields)]


def test_without_limits_nothing_goes() -> None:
    assert gone([kept(1), kept(2)]) == []


def test_the_oldest_beyond_the_count_go() -> None:
    assert gone([kept(1), kept(2), kept(3), kept(4)], max_count=2) == ["1", "2"]


def test_the_ones_older_than_the_age_go() -> None:
    assert gone([kept(1), kept(5), kept(9)], max_age_s=3 * DAY) == ["1", "5"]


def test_the_newest_stays_however_old_it_is() -> None:
    assert gone([kept(1), kept(2)], max_age_s=1) == ["1"]
    assert gone([kept(1)], max_age_s=1, max_count=0) == []


def test_a_persons_own_savepoint_stays_and_does_not_count() -> None:
    own = kept(3, "before-upgrade")
    assert gone([kept(1), kept(2), own, kept(4)], max_count=2) == ["1"]
    assert gone([own, kept(4)], max_age_s=1) == []


def test_pinned_savepoints_stay() -> None:
    savepoints = [kept(1), kept(2), kept(3)]
    assert gone(savepoints, max_count=1, pinned=["file:///s/savepoint-1"]) == ["2"]


def test_savepoints_taken_on_stop_go_like_periodic_ones() -> None:
    assert gone([kept(1, "stop"), kept(2, "stop"), kept(3)], max_count=1) == ["1", "2"]


def test_savepoints_after_a_clock_that_was_ahead_stay() -> None:
    """Each of them was deleted as soon as it was complete: by its time the one before was newer."""
    ahead = kept(1, day=9)
    assert gone([ahead, kept(2), kept(3)], max_count=2) == ["1"]
    assert gone([ahead, kept(2), kept(3)], max_count=1) == ["1", "2"]


def test_a_time_in_the_future_keeps_no_savepoint() -> None:
    """It is as old as the next one of the log, and where that has such a time too, as the one after it."""
    far = kept(1, day=40_000)
    assert gone([far, kept(2, day=50_000), kept(5), kept(9)], max_age_s=3 * DAY) == ["1", "2", "5"]
    assert gone([far, kept(8), kept(9)], max_age_s=3 * DAY) == []
    assert gone([kept(1), kept(2, day=40_000)], max_age_s=3 * DAY) == ["1"]
    assert gone([kept(8), kept(9, day=40_000)], max_age_s=3 * DAY) == []


def test_savepoints_of_a_clock_that_was_behind_stay() -> None:
    """One of an hour ago was deleted, because its machine did not have its time yet."""
    assert gone([kept(8), kept(2, day=-30), kept(10)], max_age_s=3 * DAY) == []
    assert gone([kept(5), kept(2, day=-30), kept(9, day=-29), kept(10)], max_age_s=3 * DAY) == ["5", "2", "9"]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["periodic", "stop", "mine"])), max_size=12),
    st.one_of(st.none(), st.integers(0, 12)),
    st.one_of(st.none(), st.integers(0, 12 * DAY)),
)
def test_the_newest_and_all_that_a_person_asked_for_are_never_deleted(
    made: list[tuple[int, str]], max_count: int | None, max_age_s: int | None
) -> None:
    savepoints = [kept(number, trigger, day) for number, (day, trigger) in enumerate(made)]
    lost = retention.expired(savepoints, now_ms=10 * DAY * 1000, max_age_s=max_age_s, max_count=max_count)
    assert all(not one.trigger_id.startswith("mine") for one in lost)
    assert not savepoints or savepoints[-1] not in lost
