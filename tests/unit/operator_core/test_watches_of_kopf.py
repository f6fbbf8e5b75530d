"""kopf itself, against an API server that tells it of some kinds alone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.scene import kubeconfig

from sparkstate_operator import errors
from sparkstate_operator.edges import kube as k
from sparkstate_operator.watching import handlers
from sparkstate_operator.watching.watches import Watches

VERSIONS = {"batch": "v1", "sparkstate.io": "v1alpha1"}


class Server:
    """Serves discovery, empty lists, and watches without events. ``hidden``: the API that it says it does not serve."""

    def __init__(self, hidden: str = "") -> None:
        self.hidden = hidden
        self.watches = 0
        """That were begun."""
        self.names: set[str] = set()
        """Of the tasks that run while a watch is answered."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/")
        if path == "api":
            return web.json_response({"versions": ["v1"]})
        if path == "apis":
            return web.json_response({"groups": [_group(*one) for one in VERSIONS.items()]})
        kinds = [kind for kind in handlers.KINDS if kind.api == path]
        if kinds and path != self.hidden:
            names = [kind.plural for kind in kinds] + (["namespaces"] if path == k.PODS.api else [])
            return web.json_response(
                {"kind": "APIResourceList", "resources": [_resource(one) for one in names]}
            )
        if kinds:
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        if "watch" not in request.query:
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
        self.watches += 1
        self.names |= {task.get_name() for task in asyncio.all_tasks()}
        stream = web.StreamResponse()
        await stream.prepare(request)
        await asyncio.Event().wait()
        return stream


def _group(name: str, version: str) -> dict[str, Any]:
    return {"name": name, "versions": [{"version": version}], "preferredVersion": {"version": version}}


def _resource(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "kind": name.title(),
        "singularName": name,
        "namespaced": True,
        "verbs": ["list", "watch"],
    }


@contextlib.asynccontextmanager
async def _watching(server: Server, folder: Path) -> AsyncIterator[tuple[asyncio.Task[None], Watches]]:
    """One life of the watches."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = folder / "config"
    config.write_text(kubeconfig.text(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    watches = Watches([kind.path("shop") for kind in handlers.KINDS], time.monotonic)
    heard = handlers.Listeners(lambda key, version="": None, lambda *_: True, lambda *_: True)
    found = handlers.registry(heard, str(config), watches)
    watches.begin()
    life = asyncio.create_task(handlers.watch(found, ("shop",), lambda: None, watches))
    try:
        yield life, watches
    finally:
        life.cancel()
        await asyncio.wait([life])
        await runner.cleanup()


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="an API server of several does not tell kopf of our kinds, which another one serves",
    when="the watches begin",
    expected="they begin anew after a minute",
)
def test_watches_end_if_kopf_was_not_told_of_a_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(handlers, "BEGINS_S", 0.3)

    async def end() -> None:
        async with _watching(Server(hidden=k.JOBS.api), tmp_path) as (life, _), asyncio.timeout(20):
            await life

    with pytest.raises(
        errors.WatchMissing, match=r"asked for .*/statefulsparkjobs, .*/statesnapshots.* within"
    ):
        asyncio.run(end())


@pytest.mark.parametrize("hidden", ["", k.JOBS.api])
def test_it_is_known_which_kinds_kopf_watches_and_by_which_names(tmp_path: Path, hidden: str) -> None:
    server = Server(hidden)
    served = [kind for kind in handlers.KINDS if kind.api != hidden]

    async def begin() -> list[str]:
        async with _watching(server, tmp_path) as (_, watches), asyncio.timeout(20):
            while server.watches < len(served):
                await asyncio.sleep(0.01)
            return watches.unasked()

    assert asyncio.run(begin()) == [kind.path("shop") for kind in handlers.KINDS if kind not in served]
    assert len([name for name in server.names if name.startswith(handlers.WATCHER)]) == len(served)
