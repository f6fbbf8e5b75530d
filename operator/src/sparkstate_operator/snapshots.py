"""One step for one StateSnapshot."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from sparkstate_operator import actions, clock, custom_resources, errors, labels, observed, steps
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import Config
from sparkstate_operator.custody import Custody
from sparkstate_operator.decide import snapshot, snapshot_following
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Neighbours
from sparkstate_operator.memories import Key
from sparkstate_operator.memory import Memory
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.observe import Observer
from sparkstate_operator.queue import Requeue

_log = logging.getLogger(__name__)
_TURN_S = 0.5


class Snapshots:
    """Puts observer, decision and applier together for snapshots. ``memory`` is that of a job,
    by namespace and name."""

    def __init__(
        self,
        observer: Observer,
        neighbours: Neighbours,
        applier: Applier,
        custody: Custody,
        config: Config,
        clock_: clock.Clock,
        metrics: Metrics,
        memory: Callable[[str, str], Memory],
    ) -> None:
        self._observer = observer
        self._neighbours = neighbours
        self._applier = applier
        self._custody = custody
        self._config = config
        self._clock = clock_
        self._metrics = metrics
        self._memory = memory
        self._asking: set[tuple[str, str]] = set()
        """Jobs, existing or not, one of whose snapshots is about to be asked for. One at a time: two snapshots that
        were decided side by side would both find that no other is in flight."""
        self._refusals: dict[str, observed.TriggerRefusal] = {}
        """By the uid of a snapshot: what its driver said at the last look, for the next one."""

    async def reconcile(self, key: Key) -> Requeue | None:
        """One step for one snapshot."""
        namespace = key.namespace
        found = await self._observer.one_snapshot(namespace, key.name)
        others = await self._neighbours.of_snapshot(namespace, found) if found is not None else None
        if found is None or others is not None:
            return await self._custody.leave(key, k.SNAPSHOTS, others, namespace)
        self._custody.is_ours(key)
        job = custom_resources.told(found.spec, "jobRef.name")
        if not job or found.phase not in ("", "Pending"):
            return await self._step(namespace, found)
        if (namespace, job) in self._asking:
            return Requeue(_TURN_S)
        self._asking.add((namespace, job))
        try:
            return await self._step(namespace, found)
        finally:
            self._asking.discard((namespace, job))

    async def _step(self, namespace: str, found: observed.Snapshot) -> Requeue | None:
        around = await self._observer.around_snapshot(namespace, found, self._clock.now())
        around = dataclasses.replace(around, refusal=self._refusals.pop(found.uid, None))
        revision = None
        if around.job is not None:
            memory = self._memory(namespace, around.job.name)
            revision = await self._observer.running_revision(around.job, memory)
        decision = snapshot.decide(around, revision, self._config)
        one = around.snapshot
        for action in decision.before:
            if isinstance(action, actions.AddFinalizer):
                version = await self._custody.hold(k.SNAPSHOTS, one, namespace, action)
                finalizers = (*one.finalizers, labels.FINALIZER)
                one = dataclasses.replace(one, resource_version=version, finalizers=finalizers)
        if dict(decision.status) != dict(one.status):
            version = await self._applier.status(k.SNAPSHOTS, one, namespace, decision.status)
            steps.tell("snapshot", one, namespace, decision, self._metrics)
            self._count(one, decision)
            one = dataclasses.replace(one, resource_version=version, status=decision.status)
        for note in decision.notes:
            await self._custody.tell(k.SNAPSHOTS, one, namespace, note)
        for action in decision.actions:
            await self._carry_out(action, around, one, namespace)
        return None if decision.wait_s is None else Requeue(decision.wait_s, exact=decision.wait_s < 1.0)

    async def _carry_out(
        self,
        action: actions.Action,
        around: observed.ObservedSnapshot,
        one: observed.Snapshot,
        namespace: str,
    ) -> None:
        match action:
            case actions.TriggerSavepoint():
                try:
                    await self._applier.trigger(action, str(one.status["jobUid"]))
                except errors.DriverRefusal as error:
                    self._refusals[one.uid] = observed.TriggerRefusal(str(error), error.for_good)
                    if one.status.get("reason") != snapshot_following.REFUSED:
                        _log.warning(
                            "the driver refuses the savepoint of %s/%s: %s", namespace, one.name, error
                        )
            case actions.CreateCommand():
                await self._applier.snapshot_command(action, one, namespace)
            case actions.DeleteCommand(command):
                await self._applier.delete_command(command, namespace)
            case actions.RemoveFinalizer():
                await self._applier.let_go(k.SNAPSHOTS, one, namespace)
            case _:
                raise ValueError(f"{action} is not an action about a snapshot ({around.snapshot.name})")

    def _count(self, one: observed.Snapshot, decision: actions.Decision) -> None:
        phase = str(decision.status.get("phase") or "")
        if phase != one.phase and phase in ("Completed", "Failed"):
            self._metrics.snapshots.labels(phase.lower()).inc()
