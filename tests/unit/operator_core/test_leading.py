"""The order in which a process that leads begins its work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from support.scene.decisions import NOW

from sparkstate_operator import hooks, inventory
from sparkstate_operator.config import Config
from sparkstate_operator.core import keys
from sparkstate_operator.leading import Leading
from sparkstate_operator.lease import LeaseSettings
from sparkstate_operator.managing import Manager
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.process import Process
from sparkstate_operator.watching import handlers, relabelled_jobs, served_kinds


class Clock:
    """Goes as far as it is told."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def now(self) -> Any:
        return NOW


def made(clock: Clock, require: Callable[[], None]) -> Leading:
    """Without an API server."""
    process = Process(LeaseSettings("ops", "ours", "me"), None, hooks.NoHooks())
    no: Any = None
    return Leading(no, require, b"", Manager("ops", "ours", ""), Config(), process, clock, Metrics())


def test_polls_wait_for_the_lists_however_long_the_inventory_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits = Clock(), []

    async def take(*_: Any) -> list[inventory.FoundJob]:
        clock.now_s += inventory.LONGEST_S
        return []

    async def nothing(*_: Any) -> None:
        return None

    async def lead() -> None:
        leading = made(clock, lambda: None)

        async def watch(*_: Any) -> None:
            waits.append(leading._watches.lists())
            keeping.cancel()

        monkeypatch.setattr(served_kinds, "wait", nothing)
        monkeypatch.setattr(handlers, "watch", watch)
        keeping = asyncio.create_task(asyncio.sleep(60))
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await leading.run(keeping)
        finally:
            await leading.close()

    monkeypatch.setattr(inventory, "take", take)
    monkeypatch.setattr(relabelled_jobs, "find", nothing)
    asyncio.run(lead())
    assert waits == [True]


def test_drivers_too_are_told_nothing_once_the_lease_is_lost() -> None:
    def require() -> None:
        raise LookupError("the Lease is lost")

    async def tell() -> None:
        leading = made(Clock(), require)
        try:
            with pytest.raises(LookupError):
                await leading._drivers.let_claim("127.0.0.1", keys.of_attempt(b"key", "uid", 1), "uid", 1)
        finally:
            await leading.close()

    asyncio.run(tell())
