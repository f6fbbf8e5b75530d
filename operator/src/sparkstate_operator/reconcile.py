"""One look, one decision, one step: the work that the queue does for each key.

Two shorter ways save requests, and both end in a look as soon as anything is unusual: a driver without news costs one
poll, and progress alone is written from the last look (``kept_look``). Whatever was heard before a look that fails
stays unanswered (``memory.stirred``), so that the next step is a look again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections.abc import Callable, Mapping

from sparkstate_operator import (
    actions,
    clock,
    errors,
    judging,
    kept_look,
    labels,
    observed,
    pacing,
    plan,
    steps,
    strays,
)
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import Config
from sparkstate_operator.custody import Custody
from sparkstate_operator.decide import decide, deletion
from sparkstate_operator.decide.draft import IDLE
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Neighbours, Others
from sparkstate_operator.events import Recorder
from sparkstate_operator.memories import Key, Memories, is_first
from sparkstate_operator.memory import Memory
from sparkstate_operator.metrics import Metrics
from sparkstate_operator.model.status import PROGRESS_FIELDS
from sparkstate_operator.observe import HeardReport, Observer
from sparkstate_operator.queue import Requeue
from sparkstate_operator.snapshots import Snapshots

_log = logging.getLogger(__name__)
_STRAYS_S = 2.0


class Reconciler:
    """Puts observer, decision and applier together. Everything that it remembers can be lost. ``behind``: whether
    urgent work lacks a worker."""

    def __init__(
        self,
        observer: Observer,
        neighbours: Neighbours,
        applier: Applier,
        recorder: Recorder,
        config: Config,
        clock_: clock.Clock,
        metrics: Metrics,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._observer = observer
        self._applier = applier
        self._config = config
        self._clock = clock_
        self._metrics = metrics
        self._custody = Custody(applier, recorder, clock_, config.mark)
        self.memories = Memories(clock_)
        self._snapshots = Snapshots(
            observer, neighbours, applier, self._custody, config, clock_, metrics, self._memory
        )
        self._judged: dict[Key, tuple[str, int, plan.Revision | None, str]] = {}
        self._timeless = dataclasses.replace(config, resync_s=math.inf)
        """For decisions: looks without a reason are paced here, and not by the decision's own wait."""
        looks, writes = config.looks_per_s, config.progress_writes_per_s
        self._looks = pacing.Pace(looks, clock_.monotonic, config.looks_at_once, behind)
        self._comparisons = pacing.comparisons(config, clock_.monotonic, behind)
        self._writes = pacing.Pace(writes, clock_.monotonic, config.writes_at_once, behind)

    def _memory(self, namespace: str, name: str) -> Memory:
        return self.memories.of(Key("job", namespace, name))

    async def reconcile(self, key: Key) -> Requeue | None:
        """One step for one key."""
        started_s = self._clock.monotonic()
        result = "error"
        try:
            found = await (self._job(key) if key.kind == "job" else self._snapshots.reconcile(key))
            result = "done"
            return found
        except errors.Conflict as error:
            result = "conflict"
            _log.info(
                "somebody wrote first: %s", error, extra={"object": key.name, "namespace": key.namespace}
            )
            return Requeue(0.2)
        finally:
            self._metrics.reconciles.labels(key.kind, result).inc()
            self._metrics.reconcile_seconds.labels(key.kind).observe(self._clock.monotonic() - started_s)

    # -- jobs -----------------------------------------------------------------------------------------------------

    async def _job(self, key: Key) -> Requeue | None:
        memory = self.memories.of(key)
        heard, now_s = None, self._clock.monotonic()
        if not memory.stirred and memory.driver.endpoint is not None and now_s < memory.dues.timed_s:
            due = now_s >= memory.dues.resync_s or self.memories.unshown(memory)
            if due and self._looks.take(key):
                try:
                    return await self._look_anew(key, memory, None)
                finally:
                    self._looks.end(key)
            heard = await self._observer.listen(memory.driver.endpoint)
            if not memory.stirred and await self._took(key, memory, heard):
                return self._listening(memory)
        return await self._look_anew(key, memory, heard)

    async def _look_anew(self, key: Key, memory: Memory, heard: HeardReport | None) -> Requeue | None:
        memory.stirred, memory.last.kept, memory.last.listed = False, None, {}
        for pace in (self._looks, self._writes):
            pace.drop(key)
        try:
            return await self._look(key, memory, heard)
        except BaseException:
            memory.stirred = True
            raise

    def _listening(self, memory: Memory) -> Requeue:
        """Until the driver is asked again. Polls are patient, except those of drivers that did not answer last: these
        wait for few connections of their own."""
        if memory.stirred:
            return Requeue(0.0, exact=True)  # an event came while we wrote, and asks for a look
        now_s = self._clock.monotonic()
        wait_s = memory.dues.within_s(now_s, self._listen_s)
        idle = memory.driver.news != observed.NO_NEWS and memory.dues.timed_s - now_s > wait_s
        return Requeue(wait_s, patient=idle)

    async def _wrote_progress(self, key: Key, memory: Memory, heard: HeardReport) -> bool:
        """Write the driver's progress on the basis of the last look; False if a look has to come first."""
        if memory.last.kept is None or heard.report is None:
            return False
        packed, memory.last.kept = memory.last.kept, None
        seen = dataclasses.replace(
            kept_look.unpack(packed),
            now=self._clock.now(),
            report=heard.report,
            sightings=dict(memory.attempts.sightings),
            progress_due=True,
        )
        await self._observer.running_revision(seen.job, memory)
        wanted, invalid = self._judge(key, seen.job, memory.attempts.revisions)
        decision = self._decide(seen, memory.attempts.revisions, wanted, invalid)
        if not kept_look.is_quiet(seen.job, decision, self._config):
            return False
        try:
            job = await self._carry_out_job(seen, decision, {}, memory)
        except BaseException:
            memory.stirred = True
            raise
        memory.driver.news = heard.news
        memory.dues.no_later(self._clock.monotonic(), decision.wait_s)
        self._keep(dataclasses.replace(seen, job=job), decision, memory)
        return True

    def _keep(self, seen: observed.ObservedState, decision: actions.Decision, memory: Memory) -> None:
        """Keep what was seen until the next event, if nothing is under way."""
        # EnsureChildren does not count as under way: every deep look has it, and mostly nothing differs.
        acts = any(not isinstance(action, actions.EnsureChildren) for action in decision.actions)
        idle = memory.driver.endpoint is not None and not (decision.before or acts or memory.last.leftovers)
        memory.last.kept = None
        if idle and not memory.stirred:
            # pickle gives up at 600 levels (Python 3.11). A job whose spec is nested more deeply gets a look each time.
            with contextlib.suppress(RecursionError):
                memory.last.kept = kept_look.pack(seen)

    async def _took(self, key: Key, memory: Memory, heard: HeardReport) -> bool:
        """Whether there is no more to do about what the driver said, for now; otherwise it takes a look."""
        if heard.news == memory.driver.news:
            return True
        if heard.news.state != memory.driver.news.state and not is_first(memory, heard.report):
            return await self._wrote_progress(key, memory, heard)
        if not self._due(memory) or not self._writes.take(key):
            return True
        try:
            return await self._wrote_progress(key, memory, heard)
        finally:
            self._writes.end(key)

    @property
    def _listen_s(self) -> float:
        return pacing.listen_s(self._config, len(self.memories))

    def _due(self, memory: Memory) -> bool:
        """Whether it is time to write progress into the status."""
        now_s = self._clock.monotonic()
        pause_s = pacing.progress_s(self._config, len(self.memories))
        return memory.last.progress_s is None or now_s - memory.last.progress_s >= pause_s

    async def _look(self, key: Key, memory: Memory, heard: HeardReport | None) -> Requeue | None:
        now_s = self._clock.monotonic()
        deep = self._compares(key, memory, now_s)
        written_s = memory.last.progress_s
        try:
            look = await self._observer.look(
                key.namespace, key.name, memory, self._clock.now(), deep=deep, heard=heard
            )
        finally:
            if deep:
                self._comparisons.end(key)
        failed = await strays.delete(self._applier, look.strays, key.namespace)
        if look.seen is None:
            return await self._leave(key, look.others, failed)
        self._custody.is_ours(key)
        lives = look.seen.job.deleting_at is None
        if failed is not None and lives:
            # The stray may have a name that the job needs. A deletion needs none, and its deadline must not wait.
            raise failed
        if lives and strays.may_run(look.strays, self._clock.now()):
            memory.stirred = (
                True  # nothing was decided, so the event that caused this look is still unanswered
            )
            return Requeue(_STRAYS_S)
        if look.seen.children is not None:
            memory.last.deep_s = now_s
        seen = dataclasses.replace(look.seen, progress_due=self._due(memory))
        wanted, invalid = self._judge(key, seen.job, look.revisions)
        if not lives:
            invalid = (
                ""  # a deletion goes by the revision that runs, so a spec that cannot run must not hold it up
            )
        decision = self._decide(seen, look.revisions, wanted, invalid)
        known = {**look.revisions, **({wanted.name: wanted} if wanted is not None else {})}
        if decision.check is not None:
            refused = await self._applier.check(
                self._applier.context(seen.job, known[decision.check.revision]), decision.check
            )
            if refused:
                seen = await self._observer.refused(seen, refused)
                decision = self._decide(seen, look.revisions, wanted, invalid)
        job = await self._carry_out_job(seen, decision, known, memory)
        news = seen.report.news if seen.report is not None else observed.NO_NEWS
        if not seen.progress_due and memory.last.progress_s == written_s:
            # This look may not write the progress that it learned of. Taken for told, a new checkpoint appeared in the
            # status only at the next resync.
            news = dataclasses.replace(news, progress=memory.driver.news.progress)
        memory.driver.news = news
        memory.phase = str(decision.status.get("phase") or "")
        if memory.phase != "Running" or decision.status.get("intent"):
            memory.driver.endpoint = None
        calm = memory.phase in IDLE or (memory.driver.endpoint is not None and seen.report is not None)
        resync_s = pacing.resync_s(self._config, len(self.memories))
        wait_s = pacing.wait_s(self._config, decision.wait_s, calm=calm)
        memory.dues.after_look(self._clock.monotonic(), wait_s, resync_s)
        self._keep(dataclasses.replace(seen, job=job), decision, memory)
        if memory.driver.endpoint is not None or memory.stirred:
            return self._listening(memory)
        wait_s = resync_s if wait_s is None else min(wait_s, resync_s)
        return Requeue(wait_s, exact=wait_s < 1.0)

    async def _leave(self, key: Key, others: Others | None, failed: Exception | None) -> Requeue | None:
        """The job is gone, or another operator's. ``failed``: a stray could not be deleted, and nothing but this error
        brings the key back."""
        self.memories.forget(key)
        self._judged.pop(key, None)
        self._comparisons.drop(key)
        left = await self._custody.leave(key, k.JOBS, others, key.namespace)
        if failed is not None:
            raise failed
        return left

    def _compares(self, key: Key, memory: Memory, now_s: float) -> bool:
        """Whether a look compares all children: they were not compared lately, and it is this job's turn."""
        since_s = memory.last.deep_s
        due = since_s is None or now_s - since_s > self._config.deep_resync_s
        return due and self._comparisons.take(key)

    def _decide(
        self,
        seen: observed.ObservedState,
        revisions: Mapping[str, plan.Revision],
        wanted: plan.Revision | None,
        invalid: str,
    ) -> actions.Decision:
        """Decide. A deletion ends by its deadline even if the decision fails."""
        try:
            return decide(seen, revisions, wanted, invalid, self._timeless)
        except Exception as error:
            if not deletion.overdue(seen):
                raise
            _log.exception(
                "a deletion is forced", extra={"object": seen.job.name, "namespace": seen.job.namespace}
            )
            return deletion.by_force(seen, self._timeless, f"{type(error).__name__}: {error}")

    def _judge(self, key: Key, job: observed.Job, made: Mapping[str, plan.Revision]) -> judging.Verdict:
        """The spec with the chart's defaults, or the reason why it cannot run."""
        known = self._judged.get(key)
        if known is not None and known[:2] == (job.uid, job.generation):
            return known[2:]
        verdict = judging.judge(job, self._config, made)
        self._judged[key] = (job.uid, job.generation, *verdict)
        return verdict

    async def _carry_out_job(
        self,
        seen: observed.ObservedState,
        decision: actions.Decision,
        known: Mapping[str, plan.Revision],
        memory: Memory,
    ) -> observed.Job:
        """Write and act; the job as it is then."""
        try:
            return await self._carry_out_told(seen, decision, known, memory)
        except errors.TOLD as error:
            note = actions.Note(error.reason, str(error), warning=True)
            await self._custody.tell(k.JOBS, seen.job, seen.job.namespace, note)
            raise

    async def _carry_out_told(
        self,
        seen: observed.ObservedState,
        decision: actions.Decision,
        known: Mapping[str, plan.Revision],
        memory: Memory,
    ) -> observed.Job:
        job = seen.job
        for action in decision.before:
            if isinstance(action, actions.AddFinalizer):
                version = await self._custody.hold(k.JOBS, job, job.namespace, action)
                finalizers = (*job.finalizers, labels.FINALIZER)
                # The pin counts from here on: an attempt that is built in this very step would otherwise begin empty,
                # under our own cluster's name.
                notes = {**job.annotations, **action.notes}
                job = dataclasses.replace(
                    job, resource_version=version, finalizers=finalizers, annotations=notes
                )
            else:
                with memory.attempts.noting_refusals(of_spec=isinstance(action, actions.CreateRevision)):
                    await self._applier.carry_out(action, seen, known, memory)
        if dict(decision.status) != dict(job.status):
            version = await self._put_status(job, decision.status, memory)
            memory.attempts.unwritten = ""
            steps.tell("job", seen.job, job.namespace, decision, self._metrics)
            self._note_phase(seen.job, decision, memory)
            memory.last.progress_s = self._clock.monotonic()
            job = dataclasses.replace(job, resource_version=version, status=decision.status)
        seen = dataclasses.replace(seen, job=job)
        for note in decision.notes:
            await self._custody.tell(k.JOBS, job, job.namespace, note)
        refused: errors.OperatorError | None = None
        for action in decision.actions:
            try:
                await self._act(action, seen, known, memory)
            except errors.TOLD as error:
                if not actions.stands_alone(action, decision):
                    raise
                refused = refused or error
        if refused is not None:
            raise refused
        return job

    async def _put_status(self, job: observed.Job, status: observed.Document, memory: Memory) -> str:
        """Write the status. If only progress has changed, its return through the watch does not count as an event."""
        if not kept_look.changed(job, status) <= set(PROGRESS_FIELDS):
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
        seen: observed.ObservedState,
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
        _log.info(
            "phase %s -> %s", before or "-", after, extra={"object": old.name, "namespace": old.namespace}
        )
