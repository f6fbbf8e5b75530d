"""One look, one decision, one step: what the queue calls for each key."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from sparkstate_operator import actions, clock, errors, holding, judging, labels, observed, pacing, plan
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide, deletion, snapshot
from sparkstate_operator.decide.progress import PROGRESS_FIELDS
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Neighbours, Others
from sparkstate_operator.events import Recorder
from sparkstate_operator.leaving import OTHERS_S, Leaving
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.observe import Heard, Look, Memory, Observer
from sparkstate_operator.queue import Later

_log = logging.getLogger(__name__)
_STRAYS_S = 2.0
_TURN_S = 0.5


class Key(NamedTuple):
    """What the queue holds."""

    kind: Literal["job", "snapshot"]
    namespace: str
    name: str


class Reconciler:
    """Puts observer, decision and applier together. Everything that it remembers can be lost."""

    def __init__(
        self,
        observer: Observer,
        neighbours: Neighbours,
        applier: Applier,
        recorder: Recorder,
        config: Config,
        clock_: clock.Clock,
        metrics: Metrics,
    ) -> None:
        self._observer = observer
        self._neighbours = neighbours
        self._applier = applier
        self._recorder = recorder
        self._config = config
        self._clock = clock_
        self._metrics = metrics
        self._leaving = Leaving(clock_, config.mark)
        self._memories: dict[Key, Memory] = {}
        self._judged: dict[Key, tuple[str, int, plan.Revision | None, str]] = {}

    def saw_pod(self, key: Key, body: Mapping[str, Any]) -> None:
        """A driver pod as the watch showed it: once it is gone, this is all that anybody knows."""
        pod = observed.pod_of(body)
        memory = self._memories.setdefault(key, Memory())
        memory.sightings[pod.attempt] = pod
        for attempt in sorted(memory.sightings)[:-3]:
            del memory.sightings[attempt]

    def phases(self) -> list[str]:
        """Of all jobs that were looked at."""
        return [memory.phase for memory in list(self._memories.values()) if memory.phase]

    def stir(self, key: Key, version: str = "") -> bool:
        """There is an event, with the object itself in ``version``: the next step is a look at the whole job. False
        for the echo of our own write."""
        memory = self._memories.get(key)
        if memory is None:
            return True
        if version and not memory.echo.is_news(version):
            return False
        memory.stirred = True
        return True

    async def reconcile(self, key: Key) -> Later | None:
        """One step for one key."""
        started_s = self._clock.monotonic()
        result = "error"
        try:
            found = await (self._job(key) if key.kind == "job" else self._snapshot(key))
            result = "done"
            return found
        except errors.Conflict as error:
            result = "conflict"
            _log.info(
                "somebody wrote first: %s", error, extra={"object": key.name, "namespace": key.namespace}
            )
            return Later(0.2)
        finally:
            self._metrics.reconciles.labels(key.kind, result).inc()
            self._metrics.reconcile_seconds.labels(key.kind).observe(self._clock.monotonic() - started_s)

    # -- jobs -----------------------------------------------------------------------------------------------------

    async def _job(self, key: Key) -> Later | None:
        memory = self._memories.setdefault(key, Memory())
        heard = None
        pause_s = memory.look_due_s - self._clock.monotonic()
        if not memory.stirred and memory.speaker is not None and pause_s > 0:
            heard = await self._observer.listen(memory.speaker)
            if not memory.stirred and not self._is_news(heard.news, memory):
                return Later(min(self._listen_s, max(0.2, pause_s)))
        memory.stirred = False
        try:
            return await self._look(key, memory, heard)
        except BaseException:
            memory.stirred = True
            raise

    def _is_news(self, news: observed.News, memory: Memory) -> bool:
        """Whether what the driver says is worth a look at the whole job now."""
        if news.state != memory.news.state:
            return True
        return news.progress != memory.news.progress and self._due(memory)

    @property
    def _listen_s(self) -> float:
        return pacing.listen_s(self._config, len(self._memories))

    def _due(self, memory: Memory) -> bool:
        """Whether it is time to write progress into the status."""
        now_s = self._clock.monotonic()
        pause_s = pacing.progress_s(self._config, len(self._memories))
        return memory.progress_s is None or now_s - memory.progress_s >= pause_s

    async def _look(self, key: Key, memory: Memory, heard: Heard | None) -> Later | None:
        now_s = self._clock.monotonic()
        deep = memory.deep_s is None or now_s - memory.deep_s > self._config.deep_resync_s
        written_s = memory.progress_s
        look = await self._observer.look(
            key.namespace, key.name, memory, self._clock.now(), deep=deep, heard=heard
        )
        for kind, child in look.strays:
            await self._applier.delete_stray(kind, child, key.namespace)
        if look.seen is None:
            self._memories.pop(key, None)
            self._judged.pop(key, None)
            return await self._leave(key, k.JOBS, look.others)
        self._leaving.forget(key)
        if look.seen.job.deleting_at is None and self._waits_for_strays(look):
            return Later(_STRAYS_S)
        if deep:
            memory.deep_s = now_s
        seen = dataclasses.replace(look.seen, progress_due=self._due(memory))
        wanted, invalid = self._judge(key, seen.job)
        if seen.job.deleting_at is not None:
            invalid = ""  # a deletion goes by the revision that runs; a spec that cannot run does not hold it
        decision = self._decide(seen, look.revisions, wanted, invalid)
        known = {**look.revisions, **({wanted.name: wanted} if wanted is not None else {})}
        if decision.check is not None:
            refused = await self._applier.check(
                self._applier.context(seen.job, known[decision.check.revision]), decision.check
            )
            if refused:
                seen = dataclasses.replace(seen, refused=refused)
                decision = self._decide(seen, look.revisions, wanted, invalid)
        await self._carry_out_job(seen, decision, known, memory)
        news = seen.report.news if seen.report is not None else observed.NO_NEWS
        if not seen.progress_due and memory.progress_s == written_s:
            # What this look learned of progress is not written: it stays news.
            news = dataclasses.replace(news, progress=memory.news.progress)
        memory.news = news
        memory.phase = str(decision.status.get("phase") or "")
        wait_s = decision.wait_s if decision.wait_s is not None else self._config.resync_s
        memory.look_due_s = self._clock.monotonic() + wait_s
        if memory.phase != "Running" or decision.status.get("intent"):
            memory.speaker = None
        if memory.stirred:
            return Later(0.0, exact=True)  # there was an event beside our write
        if memory.speaker is not None:
            wait_s = min(wait_s, self._listen_s)
        return Later(wait_s, exact=wait_s < 1.0)

    def _decide(
        self,
        seen: observed.Observed,
        revisions: Mapping[str, plan.Revision],
        wanted: plan.Revision | None,
        invalid: str,
    ) -> actions.Decision:
        """A deletion ends by its deadline, also where deciding fails."""
        try:
            return decide(seen, revisions, wanted, invalid, self._config)
        except Exception as error:
            if not deletion.overdue(seen):
                raise
            _log.exception(
                "a deletion is forced", extra={"job": seen.job.name, "namespace": seen.job.namespace}
            )
            return deletion.by_force(seen, f"{type(error).__name__}: {error}")

    async def _leave(self, key: Key, kind: k.Kind, others: Others | None) -> Later | None:
        """Another operator's is left alone. One of our own class is told of, and looked at again: that operator may go.
        Of another class it is left for good; if it was ours, it is let go. None: there is no such object."""
        if others is None:
            self._leaving.forget(key)
            return None
        if others.manager is None:
            if self._leaving.is_ours(others):
                await self._applier.let_go(kind, others.about, key.namespace)
                await self._tell(kind, others.about, key.namespace, self._leaving.to_class(others))
            return Later(OTHERS_S) if others.waits else None
        if note := self._leaving.note(key, others):
            await self._tell(kind, others.about, key.namespace, note)
        return Later(self._leaving.pause_s)

    def _waits_for_strays(self, look: Look) -> bool:
        """Whether a pod of an earlier job of this name may still run: the new one waits as for its own."""
        patience = timedelta(seconds=plan.DEFAULT_DEATH_S)
        pods = (observed.pod_of(child.body) for kind, child in look.strays if kind is k.PODS)
        now = self._clock.now()
        return any(pod.deleting_at is None or now < pod.deleting_at + patience for pod in pods)

    def _judge(self, key: Key, job: observed.Job) -> tuple[plan.Revision | None, str]:
        """What the spec comes to with the chart's defaults, or why it cannot run."""
        known = self._judged.get(key)
        if known is not None and known[:2] == (job.uid, job.generation):
            return known[2:]
        verdict = judging.judge(job, self._config)
        self._judged[key] = (job.uid, job.generation, *verdict)
        return verdict

    async def _carry_out_job(
        self,
        seen: observed.Observed,
        decision: actions.Decision,
        known: Mapping[str, plan.Revision],
        memory: Memory,
    ) -> None:
        try:
            await self._carry_out_told(seen, decision, known, memory)
        except errors.TOLD as error:
            note = actions.Note(error.reason, str(error), warning=True)
            await self._tell(k.JOBS, seen.job, seen.job.namespace, note)
            raise

    async def _carry_out_told(
        self,
        seen: observed.Observed,
        decision: actions.Decision,
        known: Mapping[str, plan.Revision],
        memory: Memory,
    ) -> None:
        job = seen.job
        for action in decision.before:
            if isinstance(action, actions.AddFinalizer):
                version = await self._hold(k.JOBS, job, job.namespace, action)
                finalizers = (*job.finalizers, labels.FINALIZER)
                job = dataclasses.replace(job, resource_version=version, finalizers=finalizers)
            else:
                await self._applier.carry_out(action, seen, known, memory)
        if dict(decision.status) != dict(job.status):
            version = await self._put_status(job, decision.status, memory)
            memory.unwritten = ""
            self._note_phase(seen.job, decision, memory)
            memory.progress_s = self._clock.monotonic()
            job = dataclasses.replace(job, resource_version=version, status=decision.status)
        seen = dataclasses.replace(seen, job=job)
        for note in decision.notes:
            await self._tell(k.JOBS, job, job.namespace, note)
        for action in decision.actions:
            await self._act(action, seen, known, memory)

    async def _hold(
        self,
        kind: k.Kind,
        about: observed.Job | observed.Snapshot,
        namespace: str,
        action: actions.AddFinalizer,
    ) -> str:
        """Finalizer and mark; the object's resourceVersion after it. What is held already is looked after also where
        the mark cannot be written (a policy may refuse it): then that is told."""
        try:
            return await self._applier.hold(kind, about, namespace, action)
        except holding.REFUSALS as error:
            if labels.FINALIZER not in about.finalizers:
                raise
            why = f"the mark of its operator ({labels.MANAGER}) cannot be written: {error}"
            await self._tell(kind, about, namespace, actions.Note(error.reason, why, warning=True))
            return about.resource_version

    async def _put_status(self, job: observed.Job, status: observed.Document, memory: Memory) -> str:
        """Where only progress changed, what comes back through the watch is no event."""
        changed = {name for name in {*job.status, *status} if job.status.get(name) != status.get(name)}
        if not changed <= set(PROGRESS_FIELDS):
            return await self._applier.status(k.JOBS, job, job.namespace, status)
        memory.echo.begin()
        version = ""
        try:
            version = await self._applier.status(k.JOBS, job, job.namespace, status)
        finally:
            memory.stirred |= memory.echo.end(version)
        return version

    async def _act(
        self,
        action: actions.Action,
        seen: observed.Observed,
        known: Mapping[str, plan.Revision],
        memory: Memory,
    ) -> None:
        if isinstance(action, actions.RemoveFinalizer):
            await self._applier.let_go(k.JOBS, seen.job, seen.job.namespace)
            return
        await self._applier.carry_out(action, seen, known, memory)
        if isinstance(action, actions.StartAttempt):
            self._metrics.attempts.inc()

    def _note_phase(self, old: observed.Job, decision: actions.Decision, memory: Memory) -> None:
        before, after = str(old.status.get("phase") or ""), str(decision.status.get("phase") or "")
        if before == after:
            return
        now_s = self._clock.monotonic()
        if before and memory.phase_since_s is not None:
            self._metrics.phase_seconds.labels(before).observe(now_s - memory.phase_since_s)
        memory.phase_since_s = now_s
        _log.info("phase %s -> %s", before or "-", after, extra={"job": old.name, "namespace": old.namespace})

    async def _tell(
        self, kind: k.Kind, about: observed.Job | observed.Snapshot, namespace: str, note: actions.Note
    ) -> None:
        log = _log.warning if note.warning else _log.info
        log("%s: %s", note.reason, note.message, extra={"about": about.name, "namespace": namespace})
        body = self._recorder.body(kind, about, namespace, note)
        if body is not None:
            await self._applier.event(body, namespace)

    # -- snapshots ------------------------------------------------------------------------------------------------

    async def _snapshot(self, key: Key) -> Later | None:
        found = await self._observer.one_snapshot(key.namespace, key.name)
        if found is None:
            return await self._leave(key, k.SNAPSHOTS, None)
        if others := await self._neighbours.of_snapshot(key.namespace, found):
            return await self._leave(key, k.SNAPSHOTS, others)
        self._leaving.forget(key)
        name = (found.spec.get("jobRef") or {}).get("name")
        if name is None or found.phase not in ("", "Pending"):
            return await self._snapshot_step(key, found)
        memory = self._memories.setdefault(Key("job", key.namespace, name), Memory())
        if memory.asking:
            return Later(_TURN_S)
        memory.asking = True
        try:
            return await self._snapshot_step(key, found)
        finally:
            memory.asking = False

    async def _snapshot_step(self, key: Key, found: observed.Snapshot) -> Later | None:
        around = await self._observer.around_snapshot(key.namespace, found, self._clock.now())
        revision = None
        if around.job is not None:
            job_key = Key("job", key.namespace, around.job.name)
            memory = self._memories.setdefault(job_key, Memory())
            revision = await self._observer.running_revision(around.job, memory)
        decision = snapshot.decide(around, revision, self._config)
        one = around.snapshot
        for action in decision.before:
            if isinstance(action, actions.AddFinalizer):
                version = await self._hold(k.SNAPSHOTS, one, key.namespace, action)
                finalizers = (*one.finalizers, labels.FINALIZER)
                one = dataclasses.replace(one, resource_version=version, finalizers=finalizers)
        if dict(decision.status) != dict(one.status):
            version = await self._applier.status(k.SNAPSHOTS, one, key.namespace, decision.status)
            self._count(one, decision)
            one = dataclasses.replace(one, resource_version=version, status=decision.status)
        for note in decision.notes:
            await self._tell(k.SNAPSHOTS, one, key.namespace, note)
        for action in decision.actions:
            await self._carry_out_snapshot(action, around, one, key.namespace)
        return None if decision.wait_s is None else Later(decision.wait_s, exact=decision.wait_s < 1.0)

    async def _carry_out_snapshot(
        self, action: actions.Action, around: observed.AroundSnapshot, one: observed.Snapshot, namespace: str
    ) -> None:
        match action:
            case actions.TriggerSavepoint():
                await self._applier.trigger(action, str(one.status["jobUid"]))
            case actions.CreateTask():
                await self._applier.snapshot_task(action, one, namespace)
            case actions.DeleteTask(task):
                await self._applier.delete_task(task, namespace)
            case actions.RemoveFinalizer():
                await self._applier.let_go(k.SNAPSHOTS, one, namespace)
            case _:
                raise ValueError(f"{action} is no action about a snapshot ({around.snapshot.name})")

    def _count(self, one: observed.Snapshot, decision: actions.Decision) -> None:
        phase = str(decision.status.get("phase") or "")
        if phase != one.phase and phase in ("Completed", "Failed"):
            self._metrics.snapshots.labels(phase.lower()).inc()
