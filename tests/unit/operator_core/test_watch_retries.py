"""Watches that fail for good begin anew, once there is something to watch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import kopf
import pytest

from sparkstate_operator import errors
from sparkstate_operator.edges import kube
from sparkstate_operator.watching import handlers, retrying, served_kinds
from sparkstate_operator.watching.watches import STEADY_S, Watches

JOBS, PODS = kube.JOBS.path("shop"), kube.PODS.path("shop")


class Enough(BaseException):
    """The test has seen what it wanted."""


class Clock:
    """Goes as far as it is told."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def lives(
    monkeypatch: pytest.MonkeyPatch,
    live: Callable[[int, Watches], Awaitable[None]],
    clock: Callable[[], float] = lambda: 0.0,
) -> tuple[list[str], Watches]:
    """The order of what is done, with the pauses in seconds; ``live`` is called with the number of the life."""
    watches, said = Watches([JOBS, PODS], clock), list[str]()

    async def served() -> None:
        said.append("served")

    async def one() -> None:
        said.append("live")
        await live(said.count("live"), watches)

    async def sleep(delay_s: float) -> None:
        said.append(f"{delay_s:g} s")

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises((Enough, errors.WatchesBlocked)):
        asyncio.run(retrying.keep(served, one, watches))
    return said, watches


def test_each_life_waits_for_the_definitions_and_pauses_grow_until_all_watches_were_live_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()

    async def live(number: int, watches: Watches) -> None:
        assert watches.lists(), "they have begun"
        watches.answered(PODS, 200, watch=True)
        if number == 7:
            raise Enough
        if number > 3:
            watches.answered(JOBS, 200, watch=True)
        clock.now_s += STEADY_S - (number < 6)
        raise LookupError("an ERROR event")

    said, watches = lives(monkeypatch, live, clock)
    pauses = ["3 s", "6 s", "12 s", "24 s", "30 s", "3 s"]
    assert said == [word for pause in pauses for word in ("served", "live", pause)] + ["served", "live"]
    assert watches.wrong() == f"the watch of {JOBS} has ended with another one"


def test_watches_that_end_without_an_error_begin_anew_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live(number: int, _: Watches) -> None:
        if number == 2:
            raise Enough

    said, _ = lives(monkeypatch, live)
    assert said == ["served", "live", "3 s", "served", "live"]


@pytest.mark.parametrize(
    ("error", "stack"),
    [
        (errors.WatchMissing("nothing has asked for jobs"), False),
        (aiohttp.ServerDisconnectedError(), False),
        (TimeoutError(), False),
        (kopf.LoginError("no valid credentials"), False),
        (TypeError("spawn_tasks() got an unexpected keyword argument"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_our_own_is_told_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, stack: bool
) -> None:
    async def live(number: int, _: Watches) -> None:
        raise error if number == 1 else Enough

    lives(monkeypatch, live)
    (line,) = caplog.records
    assert str(error) in line.getMessage()
    assert (line.levelname, line.exc_info is not None) == (("ERROR", True) if stack else ("WARNING", False))


def test_watches_that_hang_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live(*_: Any) -> None:
        raise errors.WatchesBlocked("they do not end")

    said, _ = lives(monkeypatch, live)
    assert said == ["served", "live"]


class Server:
    """Serves one more of our kinds, or an error, each time that it is asked."""

    def __init__(self, *answers: frozenset[str] | errors.ApiError) -> None:
        self.answers = list(answers)

    async def served(self, api: str) -> frozenset[str]:
        assert api == "apis/sparkstate.io/v1alpha1"
        answer = self.answers.pop(0)
        if isinstance(answer, errors.ApiError):
            raise answer
        return answer


def test_the_watches_wait_until_both_definitions_are_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, both = frozenset({"statefulsparkjobs"}), frozenset({"statefulsparkjobs", "statesnapshots"})
    server = Server(frozenset(), frozenset(), errors.ApiError(0, "no answer"), jobs, both)
    told: list[str] = []
    monkeypatch.setattr(served_kinds, "AGAIN_S", 0.0)
    asyncio.run(served_kinds.wait(server, told.append))  # type: ignore[arg-type]
    assert server.answers == []
    assert [why.partition(";")[0].removeprefix("the API server ") for why in told] == [
        "does not serve statefulsparkjobs and statesnapshots",
        "does not serve statefulsparkjobs and statesnapshots",
        "cannot be asked for its resources: no answer",
        "does not serve statesnapshots",
    ]
    assert "kubectl apply --server-side -f crds/" in told[0]
    assert len(caplog.records) == 3, "the same again is not logged"


async def drops_cancellations(count: int) -> None:
    """Ends with the cancellation after so many."""
    for _ in range(count):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


@pytest.mark.parametrize(("dropped", "ends"), [(0, True), (2, True), (10_000, False)])
def test_a_watcher_of_kopf_that_drops_a_cancellation_is_cancelled_again_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, dropped: int, ends: bool
) -> None:
    monkeypatch.setattr(handlers, "CANCEL_AGAIN_S", 0.01)
    monkeypatch.setattr(handlers, "ENDS_S", 5.0 if ends else 0.05)

    async def end() -> None:
        watcher = asyncio.create_task(drops_cancellations(dropped), name="watcher for pods.v1@shop")
        ours, root = asyncio.create_task(asyncio.sleep(60)), asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        try:
            await handlers._end([root])
        finally:
            assert (watcher.done(), root.done(), ours.done()) == (ends, ends, False)
            while not watcher.done():
                watcher.cancel()
                await asyncio.sleep(0)

    with contextlib.nullcontext() if ends else pytest.raises(errors.WatchesBlocked, match="have not ended"):
        asyncio.run(end())


def test_what_kopf_does_at_its_end_is_not_interrupted_by_another_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "CANCEL_AGAIN_S", 0.01)
    closed: list[str] = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            closed.append("connections")

    async def end() -> None:
        root = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        await handlers._end([root])

    asyncio.run(end())
    assert closed == ["connections"]


def test_tasks_of_kopf_that_do_not_end_and_have_no_watcher_among_them_are_of_an_unknown_kopf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "ENDS_S", 0.01)

    async def end() -> None:
        root = asyncio.create_task(drops_cancellations(1))
        await asyncio.sleep(0)
        try:
            await handlers._end([root])
        finally:
            root.cancel()

    with pytest.raises(errors.WatchesBlocked, match="no task whose name begins with 'watcher for '"):
        asyncio.run(end())
