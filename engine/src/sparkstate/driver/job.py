"""The life of a job in one driver, from top to bottom: claim, prepare, then restore, run and end; after a failure
restore, run and end again.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from functools import partial

from sparkstate import clock, errors, phases
from sparkstate.driver import job_graph, outcomes, preparing, restoring
from sparkstate.driver.claimed_lineage import ClaimedLineage
from sparkstate.driver.claiming import await_claim
from sparkstate.driver.context import DriverContext
from sparkstate.driver.current_parts import CurrentParts
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.outcomes import End, Outcome
from sparkstate.driver.parts import LastHomes, Origin, Parts
from sparkstate.driver.preparing import PreparedJob
from sparkstate.driver.restarts import Restarts
from sparkstate.driver.starting import started
from sparkstate.driver.storage_outages import Ending, heard
from sparkstate.local_state import inheritance
from sparkstate.log.fence import FenceGuard
from sparkstate.spark import plans, watermarks


class JobDriver:
    """One driver process's work. :meth:`run` once."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._restarts = Restarts(context)
        self._homes = LastHomes()
        self.current = CurrentParts(context.view, context.clock)

    def run(self) -> Outcome:
        """Until the job ends. Raises the error that ended it, if there was one."""
        try:
            return self._claim_and_run()
        except Exception as error:  # of Spark's without a JVM, too, wherever it was asked for something
            self._restarts.require_spark(error)
            raise

    def _claim_and_run(self) -> Outcome:
        context = self._context
        with contextlib.ExitStack() as ends:
            prepare = functools.cache(partial(preparing.prepare, context, ends))
            if not context.settings.checkpoint.storage:  # then only the job's code says where the state is
                context = replace(context, settings=prepare().settings)
            try:
                claimed = self.current.claimed = await_claim(context, meanwhile=prepare)
            except Ending:
                return outcomes.as_asked(context.requests)
            context.reached("the state is claimed")
            found = "" if claimed.lineage.created else " (found by the job's name)"
            context.say(f"lineage {claimed.lineage.id} at {claimed.lineage.store.url}{found}")
            if context.settings.pod is not None:
                # No earlier than the claim: only then are the users of the other attempts' folders fenced (RFC 0011).
                inheritance.inherit(context.work_dir)
            context.spark.claimed(claimed.log.token.life)
            return self._run(self._parts(claimed, prepare(), ends))

    def _parts(self, claimed: ClaimedLineage, prepared: PreparedJob, ends: contextlib.ExitStack) -> Parts:
        """The claimed lineage and the declared job, together; ``ends`` stops the guard."""
        settings = prepared.settings
        claimed = replace(claimed, settings=settings)
        job = preparing.stored_job(settings, prepared.declared)
        view = self._context.view
        view.note_job(claimed.lineage.id, [node.uid for node in prepared.declared.sinks], job.backend)
        view.note_shape(
            job_graph.shape_of(prepared.declared, lambda source: plans.source_formats(source.frame))
        )
        view.note_notices(prepared.declared.notices())
        # The clock counts the time for which this machine sleeps: a successor does not wait longer because of it.
        guard = FenceGuard(claimed.log, settings.fence_timeout_s, clock.WakefulClock())
        guard.start()
        ends.callback(guard.stop)
        return Parts(
            context=replace(self._context, settings=settings),
            prepared=prepared,
            job_storage=JobStorage(claimed, job),
            guard=guard,
        )

    def _run(self, parts: Parts) -> Outcome:
        """Incarnation after incarnation, until one ends the job or fails for good."""
        requests = self._context.requests
        while True:
            self._restarts.incarnation_begins()
            try:
                end = self._run_incarnation(parts)
            except Ending as error:
                self._context.say(str(error))
            except errors.SparkstateError as error:
                saved = parts.job_storage.stopped_with
                if saved is not None:
                    # Nobody waits for another incarnation: whoever asked for the stop was told of it.
                    self._context.say(f"{error.reason}: {error}")
                    return outcomes.stopped(saved)
                self._restarts.wait_after(error, parts)
            else:
                return outcomes.of(end, self._context.view)
            if requests.ending():
                return outcomes.as_asked(requests)

    def _run_incarnation(self, parts: Parts) -> End:
        """Restore, run, end."""
        origin = self._restore(parts)
        try:
            with started(parts, origin, self._homes) as incarnation:
                self.current.incarnation = incarnation
                end = incarnation.run()
            parts.job_storage.end_outputs()  # the slots have ended, and stage nothing more
            return end
        finally:
            self.current.incarnation = None

    def _restore(self, parts: Parts) -> Origin:
        """Restore what the log names. The log gives the incarnation its number; what older ones left is settled."""
        context, job_storage, declared = parts.context, parts.job_storage, parts.prepared.declared
        ending = context.requests.ending
        restored = heard(job_storage.restore_point, ending)
        context.say(restored.plan.message)
        restoring.require_operators(context.settings, restored, declared)
        restoring.require_sources(restored, declared)
        restoring.require_premises(restored, declared)
        restoring.require_keys(restored, declared)
        if restored.metadata is not None:
            with_one = watermarks.with_one_watermark(restored.metadata)
            context.view.note_notices(declared.keep_one_watermark(with_one))
        key_space = restoring.key_space(context.settings, restored)
        context.phases.enter(phases.ProcessPhase.RESTORE_BEGIN)
        settle = partial(context.phases.enter, phases.ProcessPhase.RESTORE_SETTLE)
        begin = partial(
            job_storage.begin_incarnation, restored, lambda n: settle(incarnation=n), parts.given_up
        )
        number = heard(begin, ending)
        metadata = restored.metadata
        epoch = metadata.epoch if metadata else None
        own = metadata.checkpoint_id if metadata and restored.same_lineage else None
        context.view.note_incarnation(number, restored.plan.url or None, epoch, own)
        return Origin(restored, number, key_space)
