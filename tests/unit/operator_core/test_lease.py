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
    """One Lease with compare-and-set. ``down``: no answers."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False

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


class Ended(Exception):
    """Instead of ``os._exit``."""


def leader(server: Server, clock: Clock, name: str) -> Leadership:
    def end(code: int) -> None:
        assert code == EXIT_CODE
        raise Ended

    return Leadership(server, LeaseSettings("ns", "lease", name, 15, 3.0), clock, end)  # type: ignore[arg-type]


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


def test_who_comes_back_under_the_same_name_leads_at_once() -> None:
    server, clock = Server(), Clock()
    assert tries(leader(server, clock, "pod-1"))
    assert tries(leader(server, clock, "pod-1"))
