"""A leader whose API server takes a request and never answers, over real connections and on the machine's clock."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sparkstate_operator import clock
from sparkstate_operator.edges.kube import Kube
from sparkstate_operator.lease import Leadership, LeaseSettings

SETTINGS = LeaseSettings("ns", "lease", "leader", 6, 1.5)


class Server:
    """One Lease. ``hangs``: the method of the one request that is taken and not answered."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.renewals = 0
        self.hangs = ""
        self.hung = asyncio.Event()
        self._never = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == self.hangs:
            self.hangs = ""
            self.hung.set()
            await self._never.wait()
        if request.method == "GET":
            return web.json_response(self.lease or {"kind": "Status"}, status=200 if self.lease else 404)
        self.lease = json.loads(await request.read())
        self.renewals += 1
        self.lease["metadata"]["resourceVersion"] = str(self.renewals)
        return web.json_response(self.lease)


async def lead(folder: Path, method: str) -> None:
    """Lead while one request hangs, and for longer after it than a renewal holds."""
    server, ended = Server(), asyncio.Event()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    config = folder / f"{method}.json"
    config.write_text(json.dumps(_kubeconfig(runner.addresses[0][1])))
    kube = await Kube.connect(str(config))
    loop = asyncio.get_running_loop()
    leadership = Leadership(
        kube, SETTINGS, clock.SystemClock(), lambda code: loop.call_soon_threadsafe(ended.set)
    )
    try:
        await leadership.acquire()
        keeping = asyncio.create_task(leadership.keep())
        server.hangs = method
        await asyncio.wait_for(server.hung.wait(), 10)
        before = server.renewals
        await asyncio.sleep(SETTINGS.held_s + 1.0)
        assert not ended.is_set(), f"one {method} that hung ended the leader"
        assert leadership.held
        assert server.renewals > before
        keeping.cancel()
        server.hangs = "PUT"
        began_s = loop.time()
        await leadership.release()
        assert loop.time() - began_s < SETTINGS.held_s, "the end waits for a Lease that is not answered"
    finally:
        leadership._renewed_s = None
        await kube.close()
        await runner.cleanup()


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="the API server takes one request for the operator's Lease and never answers it",
    when="a look at the Lease, a renewal, the release at the end",
    expected="the request is given up and the next one renews the Lease in time; the leader goes on, and its end "
    "does not wait",
)
def test_one_request_that_hangs_does_not_end_the_leader(tmp_path: Path) -> None:
    async def both() -> None:
        await asyncio.gather(lead(tmp_path, "GET"), lead(tmp_path, "PUT"))

    asyncio.run(both())


@pytest.mark.parametrize("duration_s", [5, 15, 300])
def test_a_renewal_that_hangs_leaves_time_for_another(duration_s: int) -> None:
    settings = LeaseSettings("ns", "lease", "leader", duration_s)
    assert settings.limit_s > 0.5
    assert settings.renew_s + settings.limit_s + settings.retry_s + settings.limit_s <= settings.held_s
