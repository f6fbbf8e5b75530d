"""Whether an operator is ready while the API server refuses it the Lease: a rollout must not put such a process into
the place of one that works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from sparkstate_operator import errors, hooks, naming_cluster, run
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import LeaseSettings
from sparkstate_operator.process import Process

REFUSED = errors.Forbidden(403, 'cannot get resource "leases"')
THEIRS = {
    "metadata": {"name": "ours", "resourceVersion": "1", "annotations": {"sparkstate.io/cluster": "blue"}},
    "spec": {"holderIdentity": "another", "leaseDurationSeconds": 15},
}


class Leases:
    """A Lease that may not be read until ``allow``; then another process holds it, or nobody."""

    def __init__(self, held: bool) -> None:
        self._held, self._asked = held, asyncio.Event()
        self._allowed = False

    def allow(self) -> None:
        self._allowed = True

    async def again(self) -> None:
        """Return after another request."""
        self._asked.clear()
        await self._asked.wait()
        await asyncio.sleep(0)

    async def get(self, kind: k.Kind, namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind, namespace, name) == (k.LEASES, "ops", "ours")
        self._asked.set()
        if not self._allowed:
            raise REFUSED
        return THEIRS if self._held else None

    async def create(self, kind: k.Kind, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}

    async def replace(self, kind: k.Kind, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        return body

    async def each(self, kind: k.Kind, namespace: str) -> AsyncIterator[dict[str, Any]]:
        assert (kind, namespace) == (k.JOBS, "shop")
        yield {"status": {"cluster": "blue"}}

    async def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)


def operator(cluster: str, monkeypatch: pytest.MonkeyPatch, leases: Leases) -> run._Operator:
    """Without an API server, and with no work once it leads."""

    async def connect(*_: Any, **__: Any) -> Leases:
        return leases

    async def lead(*_: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(k.Kube, "connect", connect)
    monkeypatch.setattr(run._Operator, "_lead", lead)
    config = Config(cluster=cluster, namespaces=("shop",))
    # A short Lease is tried often; a shorter one might be lost on a busy machine, and end the process.
    return run._Operator(
        config, Process(LeaseSettings("ops", "ours", "me", 5, 1.0), b"k" * 32, hooks.NoHooks())
    )


@pytest.mark.parametrize("held", [True, False], ids=["another leads", "nobody leads"])
@pytest.mark.parametrize("cluster", ["", "blue"], ids=["the name is looked for", "the name is given"])
def test_it_is_not_ready_until_it_may_use_its_lease(
    monkeypatch: pytest.MonkeyPatch, cluster: str, held: bool
) -> None:
    async def start() -> None:
        leases = Leases(held)
        found = operator(cluster, monkeypatch, leases)
        working = asyncio.create_task(found._in_turn(leases))  # type: ignore[arg-type]
        await leases.again()
        why = found._ready()
        assert "cannot get resource" in why
        assert "files/rules.yaml" in why
        leases.allow()
        async with asyncio.timeout(5):
            while found._ready():
                await leases.again()
        working.cancel()
        await asyncio.wait([working])

    asyncio.run(start())


@pytest.mark.parametrize(
    ("stalled_s", "deaf_s", "why"),
    [(0.0, 590.0, ""), (0.0, 610.0, "a watch has sent no request for 610 s"), (310.0, 0.0, "no reconcile")],
)
def test_it_is_alive_while_its_watches_ask_and_its_reconciles_end(
    monkeypatch: pytest.MonkeyPatch, stalled_s: float, deaf_s: float, why: str
) -> None:
    found = operator("blue", monkeypatch, Leases(held=True))
    assert found._alive() == "", "it does not lead"
    found._leading = SimpleNamespace(stalled_s=lambda: stalled_s, deaf_s=lambda: deaf_s)  # type: ignore[assignment]
    assert found._alive().startswith(why)
    assert bool(found._alive()) is bool(why)
