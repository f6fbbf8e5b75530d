"""Steps for snapshots of a job that is not there."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from support.scene.decisions import NOW
from support.scene.kept_scene import Clock, Recorder

from sparkstate_operator import labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.memories import Key
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.queue import Requeue
from sparkstate_operator.reconcile import Reconciler


class World:
    """Snapshots that wait for a job; observer, neighbours and applier at once. ``within`` is called in each step."""

    def __init__(self) -> None:
        self.steps = 0
        self.within: Any = None

    async def one_snapshot(self, _namespace: str, name: str) -> observed.Snapshot:
        spec = {"jobRef": {"name": "nobody"}, "timeout": "5m"}
        status = {"phase": "Pending", "observedGeneration": 1}
        return observed.Snapshot(name, name, "1", 1, NOW, spec, status, {}, {}, (labels.FINALIZER,))

    async def of_snapshot(self, *_: Any) -> None:
        return None

    async def around_snapshot(
        self, _namespace: str, one: observed.Snapshot, now: datetime
    ) -> observed.ObservedSnapshot:
        self.steps += 1
        if self.within is not None:
            within, self.within = self.within, None
            await within()
        return observed.ObservedSnapshot(one, now)

    def __getattr__(self, name: str) -> Any:
        async def act(*_: Any, **__: Any) -> str:
            return "99"

        return act


def reconciler(world: World) -> Reconciler:
    parts = (world, world, world, Recorder(), Config(), Clock(), Metrics())
    return Reconciler(*parts)  # type: ignore[arg-type]


def test_a_job_that_is_not_there_does_not_count_among_the_jobs() -> None:
    """All paces go by how many there are."""
    world = World()
    made = reconciler(world)
    for number in range(20):
        asyncio.run(made.reconcile(Key("snapshot", "shop", f"one-{number}")))
    assert world.steps == 20
    assert len(made.memories) == 0


def test_of_two_snapshots_that_ask_for_one_job_the_second_waits_for_its_turn() -> None:
    world = World()
    made = reconciler(world)
    second: list[Requeue | None] = []

    async def within() -> None:
        second.append(await made.reconcile(Key("snapshot", "shop", "two")))

    world.within = within
    asyncio.run(made.reconcile(Key("snapshot", "shop", "one")))
    assert (world.steps, second) == (1, [Requeue(0.5)])
    asyncio.run(made.reconcile(Key("snapshot", "shop", "two")))
    assert world.steps == 2
