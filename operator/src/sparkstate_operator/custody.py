"""Holds jobs and snapshots, lets them go, leaves them to other operators, and writes their Events."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from sparkstate_operator import actions, clock, holding, labels, observed
from sparkstate_operator.apply import Applier
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Others
from sparkstate_operator.events import Recorder
from sparkstate_operator.leaving import OTHERS_S, Leaving
from sparkstate_operator.queue import Requeue

_log = logging.getLogger(__name__)


class Custody:
    """The part that is the same for both kinds. ``mark``: our own."""

    def __init__(self, applier: Applier, recorder: Recorder, clock_: clock.Clock, mark: str) -> None:
        self._applier = applier
        self._recorder = recorder
        self._leaving = Leaving(clock_, mark)

    async def hold(
        self,
        kind: k.Kind,
        about: observed.Job | observed.Snapshot,
        namespace: str,
        action: actions.AddFinalizer,
    ) -> str:
        """Sets finalizer and mark, and returns the object's resourceVersion. An object that has the finalizer
        already is looked after even where a policy refuses the mark, and an Event says so. That refusal once ended
        all care for the job."""
        try:
            return await self._applier.hold(kind, about, namespace, action)
        except holding.REFUSALS as error:
            if labels.FINALIZER not in about.finalizers:
                raise
            why = f"the mark of its operator ({labels.MANAGER}) cannot be written: {error}"
            await self.tell(kind, about, namespace, actions.Note(error.reason, why, warning=True))
            return about.resource_version

    def is_ours(self, key: Hashable) -> None:
        """The object with this key belongs to no other operator."""
        self._leaving.forget(key)

    async def leave(
        self, key: Hashable, kind: k.Kind, others: Others | None, namespace: str
    ) -> Requeue | None:
        """Leaves another operator's object alone. If it has our class, an Event says so, and it is looked at again,
        because that operator may go. If it has another class, it is left for good, and let go if it was ours. None:
        there is no such object."""
        if others is None:
            self._leaving.forget(key)
            return None
        if others.manager is None:
            self._leaving.forget(key)
            if self._leaving.is_ours(others):
                await self._applier.let_go(kind, others.about, namespace)
                await self.tell(kind, others.about, namespace, self._leaving.to_class(others))
            return Requeue(OTHERS_S) if others.waits else None
        if note := self._leaving.note(key, others):
            await self.tell(kind, others.about, namespace, note)
        return Requeue(self._leaving.pause_s)

    async def tell(
        self, kind: k.Kind, about: observed.Job | observed.Snapshot, namespace: str, note: actions.Note
    ) -> None:
        """Log it, and make an Event of it unless the same was told not long ago."""
        log = _log.warning if note.warning else _log.info
        log("%s: %s", note.reason, note.message, extra={"object": about.name, "namespace": namespace})
        body = self._recorder.body(kind, about, namespace, note)
        if body is not None:
            await self._applier.event(body, namespace)
