"""A driver whose slot has little room left for operator state, and the operator that reads its status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, running_status
from support.slots import checkpointed, slots
from support.storage.stores import ManualClock

from sparkstate import keys
from sparkstate.control import driver_life, server
from sparkstate.control.documents import JobIdentity
from sparkstate.driver import operator_states
from sparkstate.driver.control import DriverControl
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.slots import protocol
from sparkstate_operator import actions, answers, clock, observed
from sparkstate_operator.core import keys as attempt_keys
from sparkstate_operator.edges.driver import Drivers

ROOM = 1 << 20
"""Bytes for the operator state of the slot."""
RULES = ROOM // 200
"""About as many rules as have room: one takes 200 bytes, more or less."""
OWN = attempt_keys.of_attempt(b"the operator's own key", "uid-1", 1)


class Rules(checkpointed.Buffer):
    """The key ``none`` ends all rules."""

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        if row.k == "none":
            self.rules.clear()
        yield from super().process_element(row, ctx)


class Driver:
    """The parts of a driver that make its status and serve it, over a real slot."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.slot = checkpointed.slot_with(folder, Rules(), room=ROOM)
        self.slot.restore()
        self.view = JobView(JobIdentity(job_uid="uid-1", attempt=1), "orders", "shop", "hashmap", self.clock)
        self.view.happened(driver_life.RESTORES)
        self.view.happened(driver_life.FILLED)
        control = DriverControl(self.view, Requests(), lambda _: None, lambda: None, lambda: 1)
        held = keys.Keys(admin=OWN.admin, read=OWN.read, slots=OWN.slots)
        self.endpoint = server.ControlServer(control, held)
        self.endpoint.__enter__()
        self._epoch = 0

    def takes(self, *names: str) -> None:
        """An epoch of such rows, after which the driver asks the slot for its sizes, as it does all the time."""
        self.slot.epoch(self._epoch, slots.rows(*[(name, 1) for name in names]))
        self._epoch += 1
        reply = self.slot.client.call(protocol.Status(), protocol.SlotStatus)
        self.view.note_slots([self.slot.address], [reply])

    def close(self) -> None:
        self.endpoint.__exit__(None, None, None)
        self.slot.close()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path)
    yield made
    made.close()


def heard(driver: Driver) -> observed.Report:
    """What the operator hears."""

    async def asking() -> dict[str, Any]:
        drivers = Drivers(clock.SystemClock(), int(driver.endpoint.address.rpartition(":")[2]))
        try:
            return await drivers.status("127.0.0.1", OWN, "uid-1", 1)
        finally:
            await drivers.close()

    document = asyncio.run(asking())
    answers.require(document, answers.STATUS)
    return observed.Report(document)


def decided(report: observed.Report, before: actions.Decision | None) -> actions.Decision:
    status = running_status() if before is None else before.status
    return look(observed.ObservedState(job(status), NOW, drivers=(pod(),), report=report))


def pressure(decision: actions.Decision) -> str:
    """The message of the condition, without its end; empty where the condition is not there."""
    found = (one for one in decision.status["conditions"] if one["type"] == "MemoryPressure")
    return next((one["message"].partition(". ")[0] for one in found), "")


def test_a_slot_that_is_nearly_full_becomes_a_condition_that_ends_when_it_is_no_more(driver: Driver) -> None:
    driver.takes(*(f"!rule {number}" for number in range(RULES // 2)))
    few = heard(driver)
    assert few.operator_state is None
    quiet = decided(few, None)
    assert pressure(quiet) == ""

    driver.takes(*(f"!rule {number}" for number in range(RULES // 2, RULES * 9 // 10)))
    full = heard(driver)
    document = full.document["operator_state_notice"]
    (slot,) = full.document["slots"]
    assert document["used_bytes"] == slot["memory"]["operator_state"] > 0.8 * ROOM
    assert (document["slot"], document["operator"], document["state"]) == (0, "sum", "rules")
    assert document["limit_bytes"] == slot["memory"]["operator_state_limit"] == ROOM
    assert full.news.state != few.news.state, "it is worth a look at once"
    noticed = decided(full, quiet)
    assert pressure(noticed) == (
        "operator state takes 80 % or more of spec.operatorStateMemoryPerSlot (1024Ki) in slot 0; most of it is state "
        "'rules' of operator 'sum'"
    )
    assert [note.reason for note in noticed.notes] == ["OperatorStateNearLimit"]

    driver.takes("none")
    assert pressure(decided(heard(driver), noticed)) == pressure(noticed), (
        "it may fill again in the next epoch"
    )
    driver.clock.sleep(operator_states.HOLDS_MS / 1000)
    driver.takes("a")
    assert pressure(decided(heard(driver), noticed)) == ""
