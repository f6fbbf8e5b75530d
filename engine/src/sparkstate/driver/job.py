"""The job over its incarnations: claim, restore, run, restart, end."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sparkstate import clock, errors, keygroups, phases, restart
from sparkstate.checkpoint.restore import Restored
from sparkstate.control.documents import Phase
from sparkstate.driver import ending, entry, savepoint_targets
from sparkstate.driver.away import Ending, heard
from sparkstate.driver.claimed import Claimed, claim
from sparkstate.driver.durable import Durable
from sparkstate.driver.handover import Handover
from sparkstate.driver.incarnation import Incarnation
from sparkstate.driver.oom import OomKills
from sparkstate.driver.parts import End, Parts
from sparkstate.driver.requests import Requests
from sparkstate.driver.snapshot_parts import StoredJob
from sparkstate.driver.view import JobView
from sparkstate.keygroups import KeySpace
from sparkstate.keys import Keys
from sparkstate.local_state import inheritance
from sparkstate.log.fence import FenceGuard
from sparkstate.log.records import SavepointCommitted
from sparkstate.settings import JobSettings
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.starting import Here
from sparkstate.spark import graph, session, watermarks
from sparkstate.spark.session import Beginning, SparkSession
from sparkstate.storage import naming

_STORAGE_RETRY_S = 2.0
_FINAL = (
    errors.SpecInvalid,
    errors.RestoreBlocked,
    errors.DeclarationError,
    errors.StateMigrationError,
    errors.UnknownFormat,
    errors.Fenced,
)
"""To try again would give the same; a person, or another version of sparkstate, has to help."""


@dataclass(frozen=True)
class Outcome:
    """How the job ended."""

    reason: str
    message: str
    savepoint: Mapping[str, object] | None = None
    """The savepoint that it was stopped with: ``location``, ``epoch``, ``trigger_id``."""


@dataclass(frozen=True)
class _Begun:
    """What of a job does not need its state."""

    session: SparkSession
    declared: graph.Graph
    python_path: tuple[str, ...]


class JobDriver:
    """One driver process's work. :meth:`run` once. ``saved`` is called when a driver that was asked to end has nothing
    left to save (``ending.Grace.saved``)."""

    def __init__(
        self,
        settings: JobSettings,
        spark: Beginning,
        slots_here: Here | None,
        attempt: int,
        keys: Keys,
        work_dir: Path,
        view: JobView,
        requests: Requests,
        clock_: clock.Clock,
        phases_: phases.Phases,
        rng: random.Random,
        say: Callable[[str], None],
        saved: Callable[[float], object],
    ) -> None:
        self._settings = settings
        self._spark = spark
        self._slots_here = slots_here
        self._attempt = attempt
        self._keys = keys
        self._work_dir = work_dir
        self._view = view
        self._requests = requests
        self._clock = clock_
        self._phases = phases_
        self._say = say
        self._saved = saved
        self._began = clock_.monotonic()
        self._failures = restart.FailureCounters(restart.RestartStrategy(settings.restart, rng))
        self._oom = OomKills()
        pod = settings.pod
        patience_s = pod.predecessor_s if pod is not None else 0.0
        self._handover = Handover(attempt, patience_s, requests.alone, clock_, view, say)
        self._session: SparkSession | None = None
        self._begun: _Begun | None = None
        self._claimed: Claimed | None = None
        self._incarnation: Incarnation | None = None
        self._slots_before: tuple[SlotAddress, ...] = ()

    def incarnation(self) -> Incarnation | None:
        """The running one, for reading state."""
        return self._incarnation if self._view.phase in (Phase.RUNNING, Phase.PAUSED) else None

    def find_savepoint(self, trigger_id: str) -> SavepointCommitted | None:
        """From the log."""
        return self._claimed.find_savepoint(trigger_id) if self._claimed else None

    def lineage_url(self) -> str:
        """Where the job's state lies; empty before it is claimed."""
        return self._claimed.lineage.store.url if self._claimed else ""

    def may_make_target(self, url: str) -> bool:
        """Whether a missing folder of savepoints may be made; nobody knows before the log is read."""
        claimed = self._claimed
        return claimed is not None and savepoint_targets.may_be_made(url, claimed.root, claimed.log.state)

    def next_checkpoint_id(self) -> int:
        """What the next checkpoint will be called."""
        return self._claimed.ids.peek() if self._claimed else 1

    def run(self) -> Outcome:
        """Until the job ends. Raises what ended it if that was no success."""
        try:
            try:
                claimed = self._claimed = self._await_claim()
            except Ending:
                return self._ended()
            self._reached("the state is claimed")
            self._say(
                f"lineage {claimed.lineage.id} at {claimed.lineage.store.url}"
                + ("" if claimed.lineage.created else " (found by the job's name)")
            )
            if self._settings.pod is not None:
                inheritance.inherit(self._work_dir)
            self._spark.claimed(claimed.token.life)
            begun = self._begin()
            declared = begun.declared
            if declared.backend is not None:
                chosen = declared.backend.effective_settings(self._settings.backend)
                self._settings = replace(self._settings, backend=chosen)
            backend = self._settings.backend.type
            self._view.note_job(claimed.lineage.id, [node.uid for node in declared.sinks], backend)
            self._view.note_notices(declared.notices())
            # A successor waits by its own clock, also while this machine is suspended.
            guard = FenceGuard(claimed.log, self._settings.fence_timeout_s, clock.WakefulClock())
            guard.start()
            try:
                durable = Durable(claimed, stored_job(declared, backend))
                return self._run(self._parts(begun, durable, guard))
            finally:
                guard.stop()
        finally:
            if self._session is not None:
                self._session.stop()

    def _begin(self) -> _Begun:
        """Spark, and what the job declares in it: needs nothing of its state, and is done once."""
        if self._begun is None:
            spark = self._session = self._spark.session()
            self._reached("Spark is ready")
            job, python_path = entry.load(self._settings.entry)
            session.ship(spark, sys.modules.get(job.__module__) if python_path else None, python_path)
            if self._slots_here is not None:
                session.begin_workers(spark)
            declared = graph.declare(job, spark, dict(self._settings.entry.params))
            check_sinks(self._settings, declared)
            self._begun = _Begun(spark, declared, python_path)
        return self._begun

    def _parts(self, begun: _Begun, durable: Durable, guard: FenceGuard) -> Parts:
        return Parts(
            settings=self._settings,
            session=begun.session,
            declared=begun.declared,
            durable=durable,
            guard=guard,
            requests=self._requests,
            view=self._view,
            clock=self._clock,
            phases=self._phases,
            keys=self._keys,
            work_dir=self._work_dir,
            python_path=begun.python_path,
            slots_here=self._slots_here,
            saved=self._saved,
            say=self._say,
            reached=self._reached,
        )

    def _reached(self, step: str) -> None:
        self._say(f"{step}, {self._clock.monotonic() - self._began:.1f} s after the driver began")

    def _await_claim(self) -> Claimed:
        """Claim the lineage; while the storage is away, wait for it."""
        pod = self._settings.pod
        who = f"{pod.namespace}/{pod.name}" if pod else f"{socket.gethostname()}:{os.getpid()}"
        url = naming.normalise_url(self._settings.checkpoint.storage)
        while True:
            try:
                # A pod's driver has nothing to save yet and ends by itself (ending.Grace); what it does while it
                # waits for an earlier one needs the main thread.
                claimed = self._claim(who) if pod else heard(lambda: self._claim(who), self._requests.ending)
                self._view.places.answered(url)
                return claimed
            except errors.StorageUnavailable as error:
                self._view.note_phase(Phase.PAUSED)
                self._view.places.failed(url, "claim the job's state", error)
                self._say(f"waiting for the storage: {error}")
                self._wait(_STORAGE_RETRY_S)
            if self._requests.ending():
                raise Ending("the job was asked to end while its storage was away")

    def _claim(self, who: str) -> Claimed:
        return claim(
            self._settings,
            self._clock,
            self._attempt,
            who,
            lambda log: self._handover.wait(log, self._begin),
            self._view.places,
        )

    def _run(self, parts: Parts) -> Outcome:
        while True:
            try:
                end = self._run_incarnation(parts)
            except _FINAL as error:
                why = parts.guard.reason_behind(error)
                if not (isinstance(why, errors.DeclarationError) and _has_worked(parts)):
                    self._view.note_failure(why.reason, str(why), recovering=False)
                    if why is error:
                        raise
                    raise why from error
                self._recover_after(why, self._delay(why))  # one odd slot must not end it
            except Ending as error:
                self._say(str(error))
            except errors.StorageUnavailable as error:
                self._recover_after(error, _STORAGE_RETRY_S)
            except errors.SparkstateError as error:
                self._recover_after(error, self._delay(error))
            else:
                return replace(
                    _outcome(end), savepoint=self._stopped_with() if end is End.SAVEPOINT else None
                )
            if self._requests.ending():
                return self._ended()

    def _ended(self) -> Outcome:
        """As it was asked to."""
        return _outcome(End.TERMINATED if self._requests.terminated.is_set() else End.CANCELLED)

    def _stopped_with(self) -> Mapping[str, object] | None:
        saved = self._view.status().last_savepoint
        if saved is None:
            return None
        return {"location": saved.path, "epoch": saved.epoch, "trigger_id": saved.trigger_id}

    def _run_incarnation(self, parts: Parts) -> End:
        ending = self._requests.ending
        restored = heard(parts.durable.restore_point, ending)
        self._say(restored.plan.message)
        self._check(restored, parts.declared)
        if restored.metadata is not None and watermarks.has_one_a_source(restored.metadata):
            self._view.note_notices(parts.declared.keep_one_watermark())
        key_space = _key_space(self._settings, restored)
        parts.phases.enter(phases.Phase.RESTORE_BEGIN)
        settle = partial(parts.phases.enter, phases.Phase.RESTORE_SETTLE)
        number = heard(
            lambda: parts.durable.begin_incarnation(
                restored, lambda n: settle(incarnation=n), parts.given_up
            ),
            ending,
        )
        epoch = restored.metadata.epoch if restored.metadata else None
        self._view.note_incarnation(number, restored.plan.url or None, epoch)
        incarnation = self._incarnation = Incarnation(parts, restored, number, key_space)
        try:
            end = incarnation.run(self._slots_before)
            parts.durable.end_outputs()
            return end
        finally:
            self._incarnation = None
            self._slots_before = incarnation.addresses or self._slots_before

    def _check(self, restored: Restored, declared: graph.Graph) -> None:
        """State without an operator would be dropped silently: refuse unless told to."""
        if restored.metadata is None or self._settings.allow_non_restored_state:
            return
        gone = sorted({state.uid for state in restored.metadata.states} - set(declared.operators))
        if gone:
            raise errors.RestoreBlocked(
                f"{restored.plan.url} holds state of operator(s) {', '.join(gone)}, which the job does not have "
                f"(it has {', '.join(sorted(declared.operators))}); give the operator its old uid, or set "
                "allowNonRestoredState: true to drop that state"
            )

    def _delay(self, error: errors.SparkstateError) -> float:
        decision = self._failures.failed("job", self._clock.monotonic())
        if isinstance(decision, restart.GiveUp):
            self._view.note_failure(error.reason, str(error), recovering=False)
            if isinstance(error, errors.UserCodeError):
                raise error
            raise errors.JobFailed(f"{error} ({decision.reason})") from error
        return decision.delay_s

    def _recover_after(self, error: errors.SparkstateError, delay_s: float) -> None:
        told = f"{error}{self._oom.news()}"
        self._view.note_failure(error.reason, told, recovering=True)
        self._say(f"{error.reason}: {told}")
        self._say(f"restarting in {delay_s:.1f} s")
        self._wait(delay_s)

    def _wait(self, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while self._clock.monotonic() < deadline and not self._requests.ending():
            self._clock.sleep(0.05)


def _has_worked(parts: Parts) -> bool:
    """Whether the lineage ever completed a checkpoint or savepoint, by this driver or by an earlier one."""
    return parts.durable.log.state.restore_point is not None


def stored_job(declared: graph.Graph, backend: str) -> StoredJob:
    """What of a job stands in its snapshots."""
    return StoredJob(
        operators=tuple(declared.operators),
        sink_paths={n.uid: n.sink.path for n in declared.sinks if isinstance(n.sink, FileSink)},
        backend=backend,
    )


def check_sinks(settings: JobSettings, declared: graph.Graph) -> None:
    """Files of a sink are written where the slots are: a folder has to be one for all pods, and said to be."""
    if settings.deployment != "cluster":
        return
    for node in declared.sinks:
        if isinstance(node.sink, FileSink) and "://" not in node.sink.path:
            raise errors.SpecInvalid(
                f"the sink of {node.uid!r} is FileSink({node.sink.path!r}): with deployment: cluster every executor "
                "has a file system of its own; write s3://bucket/prefix, or file:///path where all pods mount it"
            )


def _key_space(settings: JobSettings, restored: Restored) -> KeySpace:
    """Fixed at the job's creation: a restored snapshot decides; a manifest that says otherwise is refused."""
    maximum = settings.max_parallelism or keygroups.default_max_parallelism(settings.slots)
    if restored.metadata is None:
        return KeySpace(maximum, settings.shards or keygroups.default_shards(settings.slots, maximum))
    stored = restored.metadata.key_space
    if settings.max_parallelism not in (None, stored.max_parallelism):
        raise errors.SpecInvalid(
            f"spec.maxParallelism is {settings.max_parallelism}; the restored state was created with "
            f"{stored.max_parallelism}, which cannot change: leave the field out"
        )
    if settings.shards not in (None, stored.shards):
        raise errors.SpecInvalid(
            f"spec.shards is {settings.shards}; the restored state was created with {stored.shards}, which cannot "
            "change: leave the field out"
        )
    stored.shards_of_slot(0, settings.slots)  # refuses more slots than shards
    return replace(stored)


def _outcome(end: End) -> Outcome:
    messages = {
        End.INPUT_ENDED: "the input has ended and all of it is committed",
        End.SAVEPOINT: "stopped with a savepoint",
        End.CANCELLED: "stopped; the last checkpoint is kept",
        End.TERMINATED: ending.SAVED,
    }
    reasons = {
        End.INPUT_ENDED: "Finished",
        End.SAVEPOINT: "Suspended",
        End.CANCELLED: "Cancelled",
        End.TERMINATED: ending.REASON,
    }
    return Outcome(reasons[end], messages[end])
