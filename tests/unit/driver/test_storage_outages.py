"""Storages that do not answer are told by name, and no wait for them outlives the wish to end."""

from __future__ import annotations

import threading
import time

import pytest
from support.storage.stores import ManualClock

from sparkstate import clock, errors
from sparkstate.driver import storage_outages

URL = "s3://bucket/out"


class Storage:
    """Fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.seen: list[tuple[str, ...]] = []

    def call(self) -> None:
        if self.failures:
            self.failures -= 1
            raise errors.StorageUnavailable(f"{URL}/file: store failed: it does not answer")


def test_what_is_insisted_on_is_told_until_it_is_done() -> None:
    outages, storage = storage_outages.StorageOutages(ManualClock()), Storage(3)
    told: list[storage_outages.StorageAway] = []

    def call() -> None:
        told.extend(outages.away)
        storage.call()

    outages.insist(URL, "publish the output", call, lambda: False)
    assert [(place.url, place.doing, place.failures) for place in told] == [
        (URL, "publish the output", failures) for failures in (1, 2, 3)
    ]
    assert told[0].since_ms == told[-1].since_ms and "does not answer" in told[0].message
    assert outages.away == () and outages.failures == 3


def test_the_log_has_the_begin_of_each_outage_with_purpose_and_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outages = storage_outages.StorageOutages(ManualClock())
    for failures in (3, 0, 1):
        outages.insist(URL, "publish the output", Storage(failures).call, lambda: False)
    begin = f"storage away: {URL} (publish the output): {URL}/file: store failed: it does not answer"
    assert [record.getMessage() for record in caplog.records] == [begin, begin]


def test_it_ends_when_nobody_waits_any_more() -> None:
    outages, storage = storage_outages.StorageOutages(ManualClock()), Storage(1000)
    with pytest.raises(errors.StorageUnavailable):
        outages.insist(URL, "publish the output", storage.call, lambda: storage.failures < 990)
    assert storage.failures == 989 and outages.away == ()


def test_another_error_is_not_insisted_on() -> None:
    outages = storage_outages.StorageOutages(ManualClock())

    def refused() -> None:
        raise errors.StorageError("access denied")

    with pytest.raises(errors.StorageError, match="access denied"):
        outages.insist(URL, "publish the output", refused, lambda: False)
    assert outages.away == () and outages.failures == 0


def test_a_call_without_an_answer_counts_as_away_before_it_fails() -> None:
    manual = ManualClock()
    outages, go_on, begun = storage_outages.StorageOutages(manual), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=outages.insist, args=(URL, "publish the output", hang, lambda: False))
    thread.start()
    assert begun.wait(30)
    assert outages.away == ()
    manual.sleep(storage_outages.SLOW_S)
    (place,) = outages.away
    assert (place.url, place.failures) == (URL, 0) and "no answer for 30 s" in place.message
    assert place.since_ms == manual.now_ms() - 30_000
    go_on.set()
    thread.join()
    assert outages.away == ()


def test_a_call_that_nobody_waits_for_is_told_and_holds_nobody_up() -> None:
    time_ = ManualClock()
    outages = storage_outages.StorageOutages(time_)
    with outages.under_way(URL, "delete the leftovers of a failed operation", awaited=False):
        assert outages.away == ()
        time_.sleep(storage_outages.SLOW_S)
        (told,) = outages.away
        assert (told.url, told.doing) == (URL, "delete the leftovers of a failed operation")
        assert outages.awaited == () and outages.failing(savepoints=True) == ()
    assert outages.away == ()


def test_an_end_is_heard_while_a_call_hangs() -> None:
    go_on, ending = threading.Event(), threading.Event()
    threading.Timer(0.2, ending.set).start()
    began = time.monotonic()
    with pytest.raises(storage_outages.Ending):
        storage_outages.heard(lambda: go_on.wait(60), ending.is_set)
    assert time.monotonic() - began < 10
    go_on.set()


def test_what_is_heard_returns_and_raises_as_it_would_by_itself() -> None:
    assert storage_outages.heard(lambda: 7, lambda: False) == 7

    def fail() -> None:
        raise errors.NotFound("no such object")

    with pytest.raises(errors.NotFound, match="no such object"):
        storage_outages.heard(fail, lambda: False)
    assert storage_outages.heard(lambda: None, lambda: False) is None

    def time_out() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        storage_outages.heard(time_out, lambda: False)


def test_places_that_answer_again_are_forgotten() -> None:
    outages = storage_outages.StorageOutages(clock.SystemClock())
    for url in (URL, "s3://bucket/other"):
        outages.failed(url, "store checkpoint 1", errors.StorageUnavailable("away"))
    outages.answered(URL)
    assert [place.url for place in outages.away] == ["s3://bucket/other"]
    outages.clear()
    assert outages.away == ()
