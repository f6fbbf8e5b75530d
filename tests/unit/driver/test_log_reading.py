"""Callers of the control endpoint ask for savepoints of earlier drivers while the log's storage hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import httpx
import pytest
from support.slots.running import settings
from support.storage.stores import HookedStore

from sparkstate import clock, errors, keys
from sparkstate.control import documents, driver_life, server
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.control import DriverControl
from sparkstate.driver.current_parts import CurrentParts
from sparkstate.driver.log_reading import ANSWER_S, LogReading
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.log.records import SavepointCommitted, SavepointStarted
from sparkstate_tools.drivers import control_job, driving

MANY = 60
"""More callers than the endpoint has threads."""


class Driver:
    """Its log has the savepoint ``one`` of an earlier driver. Reads of the log hang until it :meth:`answers`."""

    def __init__(self, folder: Path) -> None:
        time = clock.SystemClock()
        earlier = claim(settings(folder), time, 1, "the earlier driver").log
        earlier.begin_incarnation("", 1)
        url = "file:///savepoints/one"
        earlier.append(SavepointStarted(trigger_id="one", url=url, checkpoint_id=1, incarnation=1))
        earlier.append(
            SavepointCommitted(
                trigger_id="one", url=url, checksum="", checkpoint_id=1, epoch=7, incarnation=1
            )
        )
        self.claimed = claim(settings(folder), time, 2, "this driver")
        self.store = HookedStore(self.claimed.lineage.store)
        self.claimed.log._entries.store = self.store
        self.view = JobView(documents.JobIdentity(job_uid="u"), "job", "default", "hashmap", time)
        for step in (driver_life.RESTORES, driver_life.FILLED):
            self.view.happened(step)
        self.requests = Requests()
        self.current = CurrentParts(self.view, time)
        self.current.claimed = self.claimed
        self.control = DriverControl(
            self.view, self.requests, self.current.find_savepoint, lambda: None, lambda: 1
        )
        self.hung, self._answers = threading.Event(), threading.Event()

    def hang(self) -> None:
        """The fence guard has the log's lock, and its read does not end."""

        def wait(operation: str, key: str) -> None:
            del operation, key
            self.hung.set()
            assert self._answers.wait(60)

        self.store.before = wait
        threading.Thread(target=self.claimed.log.check, daemon=True).start()
        assert self.hung.wait(10)

    def answers(self) -> None:
        self.store.heal()
        self._answers.set()

    @property
    def reads_under_way(self) -> int:
        return [thread.name for thread in threading.enumerate()].count("log-reading")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    made.answers()


def test_savepoints_of_earlier_drivers_are_found(driver: Driver) -> None:
    found = driver.control.savepoint("one")
    assert found is not None and (found.location, found.epoch) == ("file:///savepoints/one", 7)
    assert driver.control.savepoint("another") is None
    assert CurrentParts(driver.view, clock.SystemClock()).find_savepoint("one") is None, "nothing is claimed"


def test_the_endpoint_answers_everybody_while_the_log_hangs(driver: Driver) -> None:
    """Callers that gave up left their threads behind, and nobody could cancel the job."""
    with (
        server.ControlServer(driver.control, keys.of_token(control_job.TOKEN)) as running,
        httpx.Client(
            base_url=running.address,
            headers={"Authorization": f"Bearer {control_job.TOKEN}"},
            limits=httpx.Limits(max_connections=None),
            timeout=3 * ANSWER_S,
            trust_env=False,
        ) as http,
        futures.ThreadPoolExecutor(MANY) as callers,
    ):
        driver.hang()
        for _ in range(2):
            asked = [callers.submit(http.get, "/v1/savepoints/one") for _ in range(MANY)]
            assert {one.result().status_code for one in asked} == {503}
        assert http.get("/v1/status").status_code == 200
        assert http.post("/v1/cancel").status_code == 202
        driver.answers()


def test_a_read_that_has_taken_too_long_is_waited_for_no_more(driver: Driver) -> None:
    time, reading = clock.SystemClock(), LogReading(clock.SystemClock(), answer_s=0.5)
    driver.hang()
    with pytest.raises(errors.StorageUnavailable, match=r"has not answered for 0\.5 s"):
        reading.state_of(driver.claimed)
    began_s = time.monotonic()
    for _ in range(100):
        with pytest.raises(errors.StorageUnavailable):
            reading.state_of(driver.claimed)
    assert time.monotonic() - began_s < 0.4
    assert driver.reads_under_way == 1
    driver.answers()
    state = LogReading(clock.SystemClock(), answer_s=30.0).state_of(driver.claimed)
    assert [one.trigger_id for one in state.savepoints] == ["one"]


def test_a_request_is_not_taken_before_the_log_has_told_whether_it_is_known(driver: Driver) -> None:
    driver.hang()
    with pytest.raises(errors.StorageUnavailable, match="ask again"):
        driver.control.trigger_savepoint(SavepointTrigger(trigger_id="one"))
    assert driver.requests.waiting() == ()
    driver.answers()
    driving.wait_for(lambda: driver.reads_under_way == 0, 10, "the read to end")
    assert driver.control.trigger_savepoint(SavepointTrigger(trigger_id="one")).location is not None
