"""Answers without a JSON object of the API server: text, HTML and JSON of proxies, and text of the API server itself,
over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.scene import kubeconfig

from sparkstate_operator import clock, errors
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import Leadership, LeaseSettings

POD: dict[str, Any] = {"metadata": {"name": "orders-driver-1", "namespace": "shop"}}
HTML = "<html><body><h1>502 Bad Gateway</h1></body></html>"
BUSY = "Too many requests, please try again later."
SETTINGS = LeaseSettings("ns", "lease", "leader", 6, 1.5)


@contextlib.asynccontextmanager
async def client(
    folder: Path, answer: Callable[[web.Request], Awaitable[web.Response]]
) -> AsyncIterator[k.Kube]:
    """Of a server that answers so."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = folder / "config"
    config.write_text(kubeconfig.text(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    found = await k.Kube.connect(str(config))
    try:
        yield found
    finally:
        await found.close()
        await runner.cleanup()


def refused(
    folder: Path, status: int, text: str, call: Callable[[k.Kube], Awaitable[Any]]
) -> errors.ApiError:
    """The error of a call that is answered with this text."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers={"Retry-After": "7"})

    async def ask() -> errors.ApiError:
        async with client(folder, answer) as found:
            with pytest.raises(errors.ApiError) as caught:
                await call(found)
        return caught.value

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "text", ["404 page not found", '{"error": "404 page not found"}'], ids=["text", "json"]
)
@pytest.mark.parametrize("status", [404, 409, 403, 422, 400], ids=str)
def test_what_is_no_status_tells_nothing_of_an_object_whatever_its_code(
    tmp_path: Path, status: int, text: str
) -> None:
    """Not even that it is gone: ``get`` would answer None, and a deletion that it is done."""
    for call in (
        lambda kube: kube.get(k.JOBS, "shop", "orders"),
        lambda kube: kube.delete(k.SECRETS, "shop", "token"),
    ):
        error = refused(tmp_path, status, text, call)
        assert type(error) is errors.ApiError
        assert error.status == status
        assert "404 page not found" in str(error)


@pytest.mark.parametrize(
    ("status", "text"),
    [(502, HTML), (503, ""), (504, "[]"), (500, "[" * 100_000)],
    ids=["html", "empty", "a list", "nested too deeply"],
)
def test_a_creation_that_a_proxy_answers_may_have_made_the_object(
    tmp_path: Path, status: int, text: str
) -> None:
    error = refused(tmp_path, status, text, lambda kube: kube.create(k.PODS, "shop", POD))
    assert (error.status, error.retry_after_s) == (status, 7.0)
    assert not error.made_nothing
    assert len(str(error)) < 500


@pytest.mark.parametrize("text", [HTML, "", '"text"'], ids=["html", "empty", "no object"])
def test_a_success_that_cannot_be_read_proves_nothing(tmp_path: Path, text: str) -> None:
    error = refused(tmp_path, 200, text, lambda kube: kube.create(k.PODS, "shop", POD))
    assert (error.status, error.made_nothing) == (0, False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, errors.NotFound), (409, errors.Conflict), (403, errors.Forbidden), (422, errors.Invalid)],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_a_status_says_what_became_of_a_request(tmp_path: Path, status: int, kind: type) -> None:
    text = json.dumps({"kind": "Status", "apiVersion": "v1", "message": "why", "code": status})
    error = refused(tmp_path, status, text, lambda kube: kube.create(k.PODS, "shop", POD))
    assert type(error) is kind
    assert "why" in str(error)


def test_a_server_with_too_much_to_do_says_so_in_text_and_is_asked_when_it_says(tmp_path: Path) -> None:
    error = refused(tmp_path, 429, BUSY, lambda kube: kube.create(k.PODS, "shop", POD))
    assert isinstance(error, errors.Refused)
    assert error.made_nothing
    assert error.retry_after_s == 7.0


class Leases:
    """One Lease. ``texts``: the requests that are answered with text, in this order."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {}
        self.renewals = 0
        self.made = 0
        self.texts: list[tuple[str, int]] = []

    async def answer(self, request: web.Request) -> web.Response:
        if self.texts and self.texts[0][0] == request.method:
            return web.Response(status=self.texts.pop(0)[1], text=BUSY)
        if request.method == "GET":
            return web.json_response(self.lease or {"kind": "Status"}, status=200 if self.lease else 404)
        self.lease = json.loads(await request.read())
        self.made += request.method == "POST"
        self.renewals += 1
        self.lease["metadata"]["resourceVersion"] = str(self.renewals)
        return web.json_response(self.lease)


LISTED = '{"kind": "APIResourceList", "resources": [{"name": "pods"}, {"name": "pods/status"}]}'


@pytest.mark.parametrize(
    ("status", "text", "served"),
    [
        (200, LISTED, {"pods", "pods/status"}),
        (200, '{"resources": "none of a proxy"}', set()),
        (404, "404 page not found", set()),
    ],
)
def test_a_group_that_the_api_server_does_not_know_has_no_resources(
    tmp_path: Path, status: int, text: str, served: set[str]
) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/apis/example.io/v1"
        return web.Response(status=status, text=text)

    async def ask() -> frozenset[str]:
        async with client(tmp_path, answer) as found:
            return await found.served("apis/example.io/v1")

    assert asyncio.run(ask()) == served


def test_a_proxy_that_has_no_api_server_does_not_say_that_a_group_is_unknown(tmp_path: Path) -> None:
    assert refused(tmp_path, 502, HTML, lambda kube: kube.served("apis/example.io/v1")).status == 502


def test_text_instead_of_the_lease_does_not_end_the_leader(tmp_path: Path) -> None:
    async def lead() -> None:
        leases, ended = Leases(), asyncio.Event()
        loop = asyncio.get_running_loop()
        async with client(tmp_path, leases.answer) as kube:
            leadership = Leadership(
                kube, SETTINGS, clock.SystemClock(), lambda code: loop.call_soon_threadsafe(ended.set)
            )
            await leadership.acquire()
            keeping = asyncio.create_task(leadership.keep())
            leases.texts = [("GET", 429), ("PUT", 429), ("GET", 404), ("PUT", 502)]
            before = leases.renewals
            try:
                async with asyncio.timeout(10):
                    while leases.renewals == before and not keeping.done():
                        await asyncio.sleep(0.05)
                assert not keeping.done(), "an answer in text ended the leader"
                assert (leases.texts, leases.made) == ([], 1)
                assert leadership.held
                assert not ended.is_set()
            finally:
                keeping.cancel()
                await leadership.release()
                leadership._renewed_s = None

    asyncio.run(lead())
