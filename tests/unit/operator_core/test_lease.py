"""Leadership over a Lease that lives in memory, on clocks that the test moves."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from sparkstate_operator import errors
from sparkstate_operator.lease import EXIT_CODE, Leadership, LeaseSettings


class Clock:
    def __init__(self) -> None:
        self.s = 1000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.s, UTC)

    def monotonic(self) -> float:
        return self.s


class Server:
    """One Lease with compare-and-set. ``down``: no answers. ``refuses``: the error of every answer."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.refuses: errors.ApiError | None = None

    async def get(self, *_: object) -> dict[str, Any] | None:
        self._up()
        return copy.deepcopy(self.lease)

    async def create(self, _kind: object, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        self._up()
        if self.lease is not None:
            raise errors.AlreadyExists(409, "there is one")
        return self._store(body)

    async def replace(self, _kind: object, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        self._up()
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise errors.Conflict(409, "somebody was first")
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)

    def _up(self) -> None:
        if self.down:
            raise errors.ApiError(0, "no answer")
        if self.refuses is not None:
            raise self.refuses


class Ended(Exception):
    """Instead of ``os._exit``."""


def leader(server: Server, clock: Clock, name: str, told: list[str] | None = None) -> Leadership:
    def end(code: int) -> None:
        assert code == EXIT_CODE
        raise Ended

    settings, tell = LeaseSettings("ns", "lease", name, 15, 3.0), (told if told is not None else []).append
    return Leadership(server, settings, clock, end, tell=tell)  # type: ignore[arg-type]


def tries(leadership: Leadership) -> bool:
    return asyncio.run(leadership._try())


def test_the_first_takes_it_and_the_second_waits_for_the_whole_duration_on_its_own_clock() -> None:
    server, clock = Server(), Clock()
    first, second = leader(server, clock, "first"), leader(server, clock, "second")
    assert tries(first)
    assert not tries(second)
    clock.s += 14
    assert not tries(second)
    clock.s += 2
    assert tries(second)
    assert not first.held


def test_a_renewal_begins_the_others_wait_anew() -> None:
    server, clock = Server(), Clock()
    first, second = leader(server, clock, "first"), leader(server, clock, "second")
    assert tries(first)
    assert not tries(second)
    clock.s += 10
    assert tries(first)
    clock.s += 10
    assert not tries(second)
    assert first.held


def test_who_cannot_renew_in_time_may_not_write() -> None:
    server, clock = Server(), Clock()
    first = leader(server, clock, "first")
    assert tries(first)
    first.require()
    server.down = True
    clock.s += 11
    assert tries(first), "a while without answers is no loss"
    first.require()
    clock.s += 1
    with pytest.raises(Ended):
        first.require()


def test_who_slept_beyond_its_lease_may_not_write_whatever_the_server_says() -> None:
    server, clock = Server(), Clock()
    first, second = leader(server, clock, "first"), leader(server, clock, "second")
    assert tries(first)
    tries(second)
    clock.s += 16
    assert tries(second)
    with pytest.raises(Ended):
        first.require()


def test_a_released_lease_is_taken_at_once() -> None:
    server, clock = Server(), Clock()
    first, second = leader(server, clock, "first"), leader(server, clock, "second")
    assert tries(first)
    asyncio.run(first.release())
    assert tries(second)


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="somebody deletes the Lease of the operator",
    when="one process leads, and another waits beside it",
    expected="no two of them lead: the holder makes the Lease anew, or the other one does when it would have expired",
)
def test_a_lease_that_is_deleted_counts_for_its_whole_duration() -> None:
    server, clock = Server(), Clock()
    first, second = leader(server, clock, "first"), leader(server, clock, "second")
    assert tries(first)
    assert not tries(second)
    clock.s += 10
    server.lease = None
    assert not tries(second)
    assert first.held
    clock.s += 1
    assert tries(first), "its holder makes it anew"
    assert not tries(second)
    server.lease = None
    assert not tries(second)
    clock.s += 15
    assert not tries(second)
    clock.s += 1
    assert tries(second)
    assert not first.held


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="somebody deletes the Lease of the operator",
    when="one process leads, and a fresh one starts before the leader renews",
    expected="both lead until then; the old one ends with its next renewal",
)
def test_a_fresh_process_leads_beside_the_old_one_until_its_next_renewal() -> None:
    server, clock = Server(), Clock()
    first, fresh = leader(server, clock, "first"), leader(server, clock, "fresh")
    assert tries(first)
    server.lease = None
    assert tries(fresh)
    assert first.held
    clock.s += LeaseSettings("ns", "lease", "first", 15, 3.0).renew_s
    assert not tries(first), "keep() ends the process"
    assert fresh.held


def test_who_comes_back_under_the_same_name_leads_at_once() -> None:
    server, clock = Server(), Clock()
    assert tries(leader(server, clock, "pod-1"))
    assert tries(leader(server, clock, "pod-1"))


def test_a_right_that_is_missing_is_told_with_its_remedy_until_the_next_answer() -> None:
    server, told = Server(), list[str]()
    first = leader(server, Clock(), "first", told)
    server.refuses = errors.Forbidden(403, 'cannot get resource "leases"')
    assert not tries(first)
    for part in (
        'cannot get resource "leases"',
        "namespace ns",
        "get, create and update",
        "files/rules.yaml",
    ):
        assert part in told[0]
    server.refuses = errors.ApiError(500, "etcd has no leader")
    assert not tries(first)
    assert len(told) == 1, "an error of the server tells nothing of rights"
    server.refuses = None
    assert tries(first)
    assert told[1:] == [""]


def test_a_namespace_that_is_being_deleted_is_told_without_a_remedy() -> None:
    server, told = Server(), list[str]()
    why = "unable to create new content in namespace ns because it is being terminated"
    server.refuses = errors.Forbidden(403, why)
    assert not tries(leader(server, Clock(), "first", told))
    assert told[0].endswith(why)


def test_who_waits_for_another_leader_lacks_nothing() -> None:
    server, clock, told = Server(), Clock(), list[str]()
    assert tries(leader(server, clock, "first"))
    assert not tries(leader(server, clock, "second", told))
    assert not any(told)
