"""Drivers that hang, drip or say too much, over real connections on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from support.machine import loopback

from sparkstate_operator import errors
from sparkstate_operator.core import keys
from sparkstate_operator.edges import driver
from sparkstate_operator.queue import KeyedQueue, Requeue

HEAD = b"HTTP/1.1 200 OK\r\nX-Sparkstate-Job-Uid: uid\r\nX-Sparkstate-Attempt: 1\r\nConnection: close\r\n"
HEALTHY = "127.0.0.1"
KEYS = keys.of_attempt(b"the operator's own key", "uid", 1)
pytestmark = pytest.mark.fault_on("the operator")


class Clock:
    """The event loop's, and what the test adds to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.monotonic(), UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s


class Server:
    """Many drivers, one for each address of 127/8. What each does is said by the second byte of its address:
    0 answers, 1 is silent, 2 drips, 6 redirects to one that answers, and the rest are bodies."""

    def __init__(self) -> None:
        self.asked = 0
        self.port = 0
        self.bodies = {
            "3": b"[" * 200_000,
            "4": b'"text"',
            "5": b'{"long": "' + b"x" * driver.LONGEST + b'"}',
        }

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            address = writer.get_extra_info("sockname")[0]
            kind = address.split(".")[1] if "." in address else "0"
            if kind == "1":
                await reader.read()
            elif kind == "6":
                writer.write(b"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:%d/v1/status\r\n" % self.port)
                writer.write(HEAD.partition(b"\r\n")[2] + b"Content-Length: 0\r\n\r\n")
                await writer.drain()
            elif kind == "2":
                writer.write(HEAD + b"Content-Length: 100000\r\n\r\n")
                while not reader.at_eof():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.5)
            else:
                writer.write(HEAD + b"\r\n" + self.bodies.get(kind, b'{"phase": "RUNNING"}'))
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def drivers(
    clock: Clock, queue: KeyedQueue[str] | None = None
) -> AsyncIterator[tuple[driver.Drivers, Server]]:
    server = Server()
    listening = await asyncio.start_server(server.answer, "0.0.0.0", 0, backlog=1024)
    server.port = listening.sockets[0].getsockname()[1]
    found = driver.Drivers(clock, server.port, queue.aside if queue is not None else contextlib.nullcontext)
    try:
        yield found, server
    finally:
        await found.close()
        listening.close()


async def refused(found: driver.Drivers, ip: str) -> str:
    with pytest.raises(errors.DriverUnavailable) as caught:
        await found.status(ip, KEYS, "uid", 1)
    return str(caught.value)


@pytest.mark.fault(
    broken="100 drivers take a request and are silent, 100 more answer a byte at a time",
    when="all of them are asked at once, by 8 workers",
    expected="another job's driver is asked on time all the while",
)
def test_200_drivers_that_do_not_answer_delay_no_other_job() -> None:
    unanswered: set[str] = set()
    ends_s: list[float] = []
    ticks_s: list[float] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        queue: KeyedQueue[str] = KeyedQueue(monotonic=loop.time, rng=random.Random(1))
        async with drivers(Clock(), queue) as (found, _):

            async def work(ip: str) -> Requeue:
                try:
                    await found.status(ip, KEYS, ip if ip != HEALTHY else "uid", 1)
                except errors.DriverUnavailable:
                    unanswered.add(ip)
                    return Requeue(1.0)
                ends_s.append(loop.time())
                return Requeue(0.2, exact=True)

            for number in range(100):
                queue.add(f"127.1.0.{number + 1}")
                queue.add(f"127.2.0.{number + 1}")
            queue.add(HEALTHY, 1.0)
            ends_s.append(loop.time() + 1.0)
            working = asyncio.create_task(queue.run(8, work))
            ticking = asyncio.create_task(tick(loop))
            async with asyncio.timeout(120):
                while len(unanswered) < 200 or len(ends_s) < 10:
                    await asyncio.sleep(0.1)
            ends_s.append(loop.time())
            for task in (working, ticking):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def tick(loop: asyncio.AbstractEventLoop) -> None:
        while True:
            ticks_s.append(loop.time())
            await asyncio.sleep(0.2)

    asyncio.run(scenario())
    # What a busy machine takes from everybody, the ticks too, is no delay by the drivers that do not answer.
    assert longest(ends_s) < 1.0 + longest(ticks_s)


def test_commands_that_do_not_say_how_far_they_are_hold_up_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "TIMEOUT_S", 1.0)
    ends: list[str] = []

    async def scenario() -> None:
        queue: KeyedQueue[str] = KeyedQueue(monotonic=asyncio.get_running_loop().time, rng=random.Random(1))
        async with drivers(Clock(), queue) as (found, server):

            async def work(ip: str) -> None:
                try:
                    if ip == HEALTHY:
                        await found.status(ip, KEYS, "uid", 1)
                    else:
                        await found.command_progress(ip, "orders-purge", ip, "key")
                except errors.DriverUnavailable:
                    assert ip != HEALTHY
                ends.append(ip)

            silent = [f"127.1.0.{number + 1}" for number in range(20)]
            for ip in (*silent, HEALTHY):
                queue.add(ip)
            working = asyncio.create_task(queue.run(1, work))
            async with asyncio.timeout(30):
                while len(ends) < 21:
                    await asyncio.sleep(0.05)
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            assert ends[0] == HEALTHY
            asked = server.asked
            with pytest.raises(errors.DriverUnavailable, match="no answer lately"):
                await found.command_progress(silent[0], "orders-purge", silent[0], "key")
            assert server.asked == asked, "it is left alone for a while"

    asyncio.run(scenario())


def longest(times_s: list[float]) -> float:
    """The longest time between two of them."""
    return max(after - before for before, after in itertools.pairwise(times_s))


@pytest.mark.parametrize("kind", ["1", "2"])
def test_a_driver_that_did_not_answer_is_polled_after_growing_pauses(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "TIMEOUT_S", 0.2)
    ip = f"127.{kind}.0.1"

    async def scenario() -> None:
        clock = Clock()
        async with drivers(clock) as (found, server):
            pauses_s = []
            for asked in (1, 2, 3, 4, 5, 6):
                async with asyncio.timeout(3.0):
                    assert "no whole answer within" in await refused(found, ip)
                assert server.asked == asked
                assert "no answer lately" in await refused(found, ip)
                assert server.asked == asked
                pauses_s.append(round(found._doubts.pause_s(("uid", 1)) + 0.4))
                clock.ahead_s += driver.LONGEST_PAUSE_S
            assert pauses_s == [2, 4, 8, 16, 30, 30]
            # What is asked of it, beside polls, is sent at once; an answer ends all doubt.
            clock.ahead_s -= driver.LONGEST_PAUSE_S
            await found.let_claim(HEALTHY, KEYS, "uid", 1)
            assert await found.status(HEALTHY, KEYS, "uid", 1) == {"phase": "RUNNING"}

    asyncio.run(scenario())


@pytest.mark.fault(
    broken="a driver answers more than 1 MiB, JSON that is nested without end, or no object",
    when="it is asked for its status",
    expected="it counts as a driver that does not answer",
)
@pytest.mark.parametrize(
    ("kind", "why"),
    [("3", "is not JSON"), ("4", "is not a JSON object"), ("5", "is longer than 1048576 bytes")],
)
def test_an_answer_that_cannot_be_one_is_none(kind: str, why: str) -> None:
    async def scenario() -> None:
        async with drivers(Clock()) as (found, _):
            assert why in await refused(found, f"127.{kind}.0.1")

    asyncio.run(scenario())


def test_an_answer_that_is_too_long_is_told_apart_from_none() -> None:
    async def scenario() -> None:
        async with drivers(Clock()) as (found, _):
            for _ in ("it is asked", "it pauses, and no other reason is known"):
                with pytest.raises(errors.AnswerTooLarge):
                    await found.status("127.5.0.1", KEYS, "uid", 1)

    asyncio.run(scenario())


@pytest.mark.fault(
    broken="a driver answers with a redirection",
    when="it is asked for its status",
    expected="nobody else is asked: the token stays between operator and driver",
)
def test_a_redirection_is_not_followed() -> None:
    async def scenario() -> None:
        async with drivers(Clock()) as (found, server):
            assert ": 307" in await refused(found, "127.6.0.1")
            assert server.asked == 1

    asyncio.run(scenario())


class Keyed:
    """A driver that opens to one key alone."""

    def __init__(self, key: str, attempt: int) -> None:
        self.key, self.attempt = key, attempt

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        line = "200 OK" if f"Bearer {self.key}\r\n" in request else "401 Unauthorized"
        told = f"X-Sparkstate-Job-Uid: uid\r\nX-Sparkstate-Attempt: {self.attempt}\r\nConnection: close"
        writer.write(f'HTTP/1.1 {line}\r\n{told}\r\n\r\n{{"phase": "RUNNING"}}'.encode())
        await writer.drain()
        writer.close()


def test_what_a_stranger_at_the_drivers_address_answers_says_nothing_of_the_driver() -> None:
    async def scenario() -> None:
        stranger, own = Keyed(KEYS.token, 2), Keyed(KEYS.read, 1)
        first = await asyncio.start_server(stranger.answer, "127.0.0.1", 0)
        port = first.sockets[0].getsockname()[1]
        second = await asyncio.start_server(own.answer, "127.0.0.2", port)
        found = driver.Drivers(Clock(), port)
        try:
            assert "attempt 2" in await refused(found, "127.0.0.1")
            assert await found.status("127.0.0.2", KEYS, "uid", 1) == {"phase": "RUNNING"}
        finally:
            await found.close()
            first.close()
            second.close()

    asyncio.run(scenario())


def test_only_so_many_older_drivers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "OLDER", 2)

    async def scenario() -> list[str]:
        found = driver.Drivers(Clock())
        for uid in ("a", "b", "a", "c"):
            found._know_older(uid, 1)
        await found.close()
        return list(found._older)

    assert asyncio.run(scenario()) == ["a", "c"]


def test_a_driver_is_asked_at_an_address_of_ipv6() -> None:
    async def scenario() -> None:
        server = Server()
        listening = await asyncio.start_server(server.answer, loopback.LISTENS, 0)
        found = driver.Drivers(Clock(), listening.sockets[0].getsockname()[1])
        try:
            assert await found.status(loopback.IPV6, KEYS, "uid", 1) == {"phase": "RUNNING"}
        finally:
            await found.close()
            listening.close()

    asyncio.run(scenario())


class Ended(Exception):
    """Instead of the end of the process."""


def test_a_process_that_loses_its_lease_while_a_write_waits_for_its_turn_tells_the_driver_nothing() -> None:
    async def scenario() -> None:
        server, lost = Server(), False

        def require() -> None:
            if lost:
                raise Ended

        listening = await asyncio.start_server(server.answer, HEALTHY, 0)
        port = listening.sockets[0].getsockname()[1]
        found = driver.Drivers(Clock(), port, contextlib.nullcontext, require)
        try:
            await found.let_claim(HEALTHY, KEYS, "uid", 1)
            assert server.asked == 1
            found._calls = asyncio.Semaphore(0)
            writes = [
                asyncio.create_task(found.let_claim(HEALTHY, KEYS, "uid", 1)),
                asyncio.create_task(
                    found.trigger(HEALTHY, KEYS, "uid", 1, {"trigger_id": "t", "stop": True})
                ),
            ]
            await asyncio.sleep(0.1)
            lost = True
            for _ in writes:
                found._calls.release()
            ends = await asyncio.gather(*writes, return_exceptions=True)
            assert [type(end) for end in ends] == [Ended, Ended]
            assert server.asked == 1
            assert await found.status(HEALTHY, KEYS, "uid", 1) == {"phase": "RUNNING"}, "to look is no write"
        finally:
            await found.close()
            listening.close()

    asyncio.run(scenario())
