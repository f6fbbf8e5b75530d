"""The driver's REST endpoint (docs/rest-api.md).

An answer counts only if it names the job and attempt that were meant, because pod addresses are used again. For the
same reason a request carries only the key that it needs: one to look, another to change something. A driver whose image
knows only the old token refuses both with 401, and is then asked with that token,
which opens nothing in newer drivers (RFC 0017).

Drivers run users' code, and one that hangs must not cost other jobs anything. So a call has a limit in total, and its
answer has one in bytes. A reconcile that waits for a driver leaves its place to another (``aside``). A driver that did
not answer in time is polled after growing pauses, and all such drivers share a few connections.

Each call has a connection of its own: thousands of open ones would cost as much memory as they save time. Client and
settings were chosen by measurement: a request among 500 drivers costs 0.32 ms of a processor with aiohttp, and 14 ms
with httpx, which searches all connections for each request (`make bench-operator ARGS=--drivers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from yarl import URL

from sparkstate_operator import clock, errors
from sparkstate_operator.config import DRIVER_PORT
from sparkstate_operator.core.keys import Keys

TIMEOUT_S = 5.0
"""For a whole call: a driver that drips bytes gets no more time than one that is silent."""
LONGEST = 1 << 20
"""Bytes of an answer."""
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 30.0
CALLS = 448
"""Calls at once to drivers that answered the last time, or were never asked."""
DOUBTED_CALLS = 64
"""Calls at once to drivers that did not answer the last time."""
FORGET_S = 600.0
OLDER = 10_000
"""The operator remembers this many drivers that know only the old token."""
FOR_GOOD = frozenset({400, 409, 422})
"""A driver answers so to a request that is wrong as it is. Of anything else the cause may go away."""
UID_HEADER = "X-Sparkstate-Job-Uid"
ATTEMPT_HEADER = "X-Sparkstate-Attempt"
COMMAND_HEADER = "X-Sparkstate-Command"

Document = dict[str, Any]


class Drivers:
    """Talks to drivers. Made within a running event loop, which aiohttp's session needs. ``port`` is for tests; a pod's
    is always the same. It enters ``aside`` while it waits for a driver. ``before_write`` is called right before each
    request that changes something, and may end the process, as in ``kube.Kube``: a process that has lost its Lease must
    not tell a driver that its predecessors have ended."""

    def __init__(
        self,
        clock_: clock.Clock,
        port: int = DRIVER_PORT,
        aside: Callable[[], contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._port = port
        self._session = _session()
        self._doubts = _Doubts(clock_)
        self._older: dict[str, int] = {}
        """By job, the attempt whose driver knows the token alone."""
        self._calls = asyncio.Semaphore(CALLS)
        self._doubted_calls = asyncio.Semaphore(DOUBTED_CALLS)
        self._aside = aside
        self._before_write = before_write

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def status(self, ip: str, keys: Keys, uid: str, attempt: int) -> Document:
        """The JobStatus. Raises ``DriverUnavailable``."""
        return await self._call("GET", ip, "/v1/status", keys, uid, attempt)

    async def savepoint(
        self, ip: str, keys: Keys, uid: str, attempt: int, trigger_id: str
    ) -> Document | None:
        """The fate of a trigger; None if the driver knows nothing of it."""
        return (
            await self._call("GET", ip, f"/v1/savepoints/{trigger_id}", keys, uid, attempt, missing_ok=True)
            or None
        )

    async def trigger(self, ip: str, keys: Keys, uid: str, attempt: int, request: Document) -> Document:
        """Ask for a savepoint (``SavepointRequest``); asking again with the same id is harmless."""
        return await self._call("POST", ip, "/v1/savepoints", keys, uid, attempt, body=request)

    async def command_progress(self, ip: str, name: str, uid: str, key: str) -> Document:
        """How far the engine command ``name`` is, by its own word. Raises ``DriverUnavailable``. An older
        engine does not answer. ``key`` opens this command's progress and nothing else: a stranger may have the
        address by now."""
        host = f"[{ip}]" if ":" in ip else ip
        url = f"http://{host}:{self._port}/v1/progress"
        who = (uid, 0)
        if (pause_s := self._doubts.pause_s(who)) > 0:
            raise self._doubts.kind(who)(f"GET {url}: no answer lately; asked again in {pause_s:.0f} s")
        async with self._aside(), self._doubted_calls if self._doubts.has(who) else self._calls:
            answer, data = await self._exchange("GET", url, {"Authorization": f"Bearer {key}"}, None, who)
        told = answer.headers.get(COMMAND_HEADER)
        if answer.status != 200 or told != name:
            raise errors.DriverUnavailable(f"GET {url}: {answer.status} of command {told}, not of {name}")
        return _document(data, f"GET {url}")

    async def let_claim(self, ip: str, keys: Keys, uid: str, attempt: int) -> None:
        """Tell it that the drivers of all older attempts have ended."""
        await self._call("POST", ip, "/v1/claim", keys, uid, attempt)

    async def _call(
        self,
        method: str,
        ip: str,
        path: str,
        keys: Keys,
        uid: str,
        attempt: int,
        *,
        body: Document | None = None,
        missing_ok: bool = False,
    ) -> Document:
        host = f"[{ip}]" if ":" in ip else ip
        url = f"http://{host}:{self._port}{path}"
        who = (uid, attempt)
        if method == "GET" and (pause_s := self._doubts.pause_s(who)) > 0:
            raise self._doubts.kind(who)(f"{method} {url}: no answer lately; asked again in {pause_s:.0f} s")
        key = keys.token if self._older.get(uid) == attempt else keys.read if method == "GET" else keys.admin
        answer, data = await self._asked(method, url, key, body, who)
        by_token = False
        if answer.status == 401 and key != keys.token:
            answer, data = await self._asked(method, url, keys.token, body, who)
            by_token = answer.status != 401
        _require_same(answer.headers, uid, attempt, url)
        # Only now that it has named its job and attempt. A stranger at a reused address may take the token as well:
        # noted for our own driver, that made the driver refuse every later request.
        if by_token:
            self._know_older(uid, attempt)
        if answer.status == 404 and missing_ok:
            return {}
        # Redirections are errors too: user code could send the request, and the key in it, anywhere.
        if answer.status >= 300:
            raise _error_of(answer.status, data, f"{method} {url}")
        return _document(data, f"{method} {url}")

    def _know_older(self, uid: str, attempt: int) -> None:
        self._older.pop(uid, None)
        self._older[uid] = attempt
        while len(self._older) > OLDER:
            # Forgetting costs one more request: the driver refuses the new key once, and is noted again.
            del self._older[next(iter(self._older))]

    async def _asked(
        self, method: str, url: str, key: str, body: Document | None, who: tuple[str, int]
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        headers = {"Authorization": f"Bearer {key}"}
        async with self._aside(), self._doubted_calls if self._doubts.has(who) else self._calls:
            if method != "GET":
                self._before_write()  # only now: the Lease may be lost while the call waits for its turn
            return await self._exchange(method, url, headers, body, who)

    async def _exchange(
        self, method: str, url: str, headers: dict[str, str], body: Document | None, who: tuple[str, int]
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        what = f"{method} {url}"
        request = self._session.request(
            method, URL(url, encoded=True), json=body, headers=headers, allow_redirects=False
        )
        try:
            async with asyncio.timeout(TIMEOUT_S), request as answer:
                data = await _body(answer, what)
        except TimeoutError as error:
            self._doubts.add(who)
            raise errors.DriverUnavailable(f"{what}: no whole answer within {TIMEOUT_S:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise errors.DriverUnavailable(f"{what}: {type(error).__name__}: {error}") from error
        except errors.DriverUnavailable as error:
            self._doubts.add(who, type(error))
            raise
        self._doubts.end(who)
        return answer, data


class _Doubts:
    """Drivers, by uid and attempt, that did not answer in time when they were last asked."""

    def __init__(self, clock_: clock.Clock) -> None:
        self._clock = clock_
        self._known: dict[tuple[str, int], tuple[int, float, type[errors.DriverUnavailable]]] = {}

    def has(self, who: tuple[str, int]) -> bool:
        return who in self._known

    def pause_s(self, who: tuple[str, int]) -> float:
        """How long it is not to be polled yet."""
        return self._known[who][1] - self._clock.monotonic() if who in self._known else 0.0

    def kind(self, who: tuple[str, int]) -> type[errors.DriverUnavailable]:
        """The error of the last call to it."""
        return self._known[who][2] if who in self._known else errors.DriverUnavailable

    def add(
        self, who: tuple[str, int], kind: type[errors.DriverUnavailable] = errors.DriverUnavailable
    ) -> None:
        now_s = self._clock.monotonic()
        # Attempts that have ended are never asked again.
        self._known = {one: known for one, known in self._known.items() if known[1] + FORGET_S > now_s}
        failures = (self._known[who][0] if who in self._known else 0) + 1
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_S)
        self._known[who] = (failures, now_s + pause_s, kind)

    def end(self, who: tuple[str, int]) -> None:
        self._known.pop(who, None)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=CALLS + DOUBTED_CALLS, force_close=True, happy_eyeballs_delay=None
        ),
        timeout=aiohttp.ClientTimeout(),  # the whole call has one
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        # LONGEST counts bytes as they arrive, and a few compressed ones may unpack to very many. So none are asked for,
        # and none are unpacked.
        auto_decompress=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "sparkstate-operator"},
    )


async def _body(answer: aiohttp.ClientResponse, what: str) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_any():
        data += chunk
        if len(data) > LONGEST:
            raise errors.AnswerTooLarge(f"{what}: the answer is longer than {LONGEST} bytes")
    return bytes(data)


def _document(data: bytes, what: str) -> Document:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise errors.DriverUnavailable(f"{what}: the answer is not JSON ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise errors.DriverUnavailable(f"{what}: the answer is not a JSON object")
    return found


def _error_of(status: int, data: bytes, what: str) -> errors.DriverUnavailable:
    """From the engine's ``Problem`` (docs/rest-api.md). Whatever has another form is the word of a broken driver."""
    try:
        found = json.loads(data)
        told = f"{found['error']}; {found['remedy']}"
    except (ValueError, RecursionError, LookupError, TypeError):
        return errors.DriverUnavailable(f"{what}: {status} {data[:500].decode(errors='replace')}")
    return errors.DriverRefusal(told, for_good=status in FOR_GOOD)


def _require_same(headers: Mapping[str, str], uid: str, attempt: int, url: str) -> None:
    told = headers.get(UID_HEADER), headers.get(ATTEMPT_HEADER)
    if told != (uid, str(attempt)):
        raise errors.DriverUnavailable(
            f"{url}: the answer comes from job {told[0]}, attempt {told[1]}, not from job {uid}, attempt {attempt}"
        )
