"""``sparkstate run`` without its command line: puts the parts together and runs one job to its end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from sparkstate import clock as clocks
from sparkstate import errors, java, keygroups, manifest, restart, settings
from sparkstate.checkpoint import restore as restore_plan
from sparkstate.control import client as control
from sparkstate.log import lineage
from sparkstate.log.state import LogState
from sparkstate.runner import command, periodic, process, progress, schedule, supervisor, watching, workdir
from sparkstate.runner.savepoint_store import SavepointStore
from sparkstate.storage import naming
from sparkstate.stored import lineages

STATUS_TIMEOUT_S = 5.0
"""For one question to the driver: a driver that is busy must not hold up the answer to Ctrl-C."""
STORAGE_RETRY_S = 2.0
_PRINTED = "what the job's function and sinks print"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line."""

    manifest: Path
    overrides: tuple[str, ...] = ()
    work_dir: Path | None = None
    listen: str = "127.0.0.1:0"
    show_progress: bool = True


class Runner:
    """Runs jobs on this machine. All that is not repeatable comes in here: time, chance, tokens, streams."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        stream: TextIO,
        clock: clocks.Clock,
        rng: random.Random,
        new_token: Callable[[], str],
        stop: watching.StopRequest,
    ) -> None:
        self._environ = environ
        self._stream = stream
        self._clock = clock
        self._rng = rng
        self._new_token = new_token
        self._stop = stop

    def run(self, options: Options) -> int:
        """Validate, say what has no effect here, run to the end; returns the exit code.

        Raises ``SpecInvalid`` for a wrong manifest, ``JavaNotFound``, ``WorkDirInUse``, and what the storage raises.
        """
        resolved = manifest.resolve(manifest.load(options.manifest, options.overrides), place_by_code=True)
        job = resolved.settings
        found_java = java.find(self._environ)
        reporter = progress.Reporter(self._stream, self._clock, show_progress=options.show_progress)
        for notice in resolved.notices:
            reporter.message(f"note: {notice}")
        folder = workdir.WorkDir(
            options.work_dir or workdir.default_root(options.manifest, job.name),
            Path(job.work_dir) / f"sparkstate-{job.name}" if job.work_dir else None,
        )
        with folder.locked():
            folder.write_token(self._new_token())
            try:
                return self._supervise(options, job, folder, found_java, reporter)
            finally:
                reporter.clear()
                if left := folder.clean(self._clock):
                    reporter.message(f"note: {left}")

    def _supervise(
        self,
        options: Options,
        job: settings.JobSettings,
        folder: workdir.WorkDir,
        found_java: java.Java,
        reporter: progress.Reporter,
    ) -> int:
        found = self._await_storage(lambda: look(job, folder, self._clock), reporter)
        require_key_space(job, found)
        name = str(lineage.JobName.of(job))
        first_attempt = max(lineages.last_attempt(found), folder.last_attempt()) + 1
        reporter.message(_opening(job, found, folder, first_attempt))
        arguments = command.DriverArguments(
            manifest=options.manifest,
            overrides=options.overrides,
            listen=options.listen,
            start_since=first_attempt if job.start_empty else 0,
        )
        environment = command.driver_environment(self._environ, found_java)

        def launch(attempt: int) -> process.DriverProcess:
            known = folder.known_lineage(job.checkpoint.storage, name)
            words = command.driver_command(arguments, folder, attempt, known)
            return process.DriverProcess.start(words, environment, folder.new_log_file(attempt), self._clock)

        def connect(address: str) -> control.ControlClient:
            return control.ControlClient(address, folder.read_token() or "", timeout_s=STATUS_TIMEOUT_S)

        savepoint_store = SavepointStore(job, self._clock)
        savepoints = self._periodic(job, found, savepoint_store, reporter)
        try:
            return supervisor.Supervisor(
                job=watching.Job(
                    name=job.name,
                    first_attempt=first_attempt,
                    savepoint_on_stop=job.savepoint.on_stop,
                    storage=job.checkpoint.storage,
                    full_name=name,
                    kept_before=found.state.restore_point if found else None,
                ),
                folder=folder,
                launch=launch,
                connect=connect,
                counters=restart.FailureCounters(restart.RestartStrategy(job.restart, self._rng)),
                savepoints=savepoints,
                savepoint_store=savepoint_store,
                stop=self._stop,
                clock=self._clock,
                reporter=reporter,
            ).run()
        finally:
            if savepoints is not None:
                savepoints.close()

    def _periodic(
        self,
        job: settings.JobSettings,
        found: lineages.FoundLineage | None,
        savepoint_store: SavepointStore,
        reporter: progress.Reporter,
    ) -> periodic.PeriodicSavepoints | None:
        plan = schedule.from_settings(job.savepoint)
        if plan is None:
            return None
        if not lineages.has_storage(job):
            raise errors.SpecInvalid(
                "spec.savepoints.interval and schedule need spec.checkpointing.storage in the manifest: whoever counts "
                "the savepoints does not run the job's code"
            )
        return periodic.PeriodicSavepoints(
            plan,
            job.savepoint,
            savepoint_store,
            self._clock,
            reporter.message,
            first_start_ms=found.lineage.pointer.created_ms if found else self._clock.now_ms(),
            pinned=[
                naming.normalise_url(url) for url in (job.restore_from,) if url and url != restore_plan.LATEST
            ],
        )

    def _await_storage(
        self, look_: Callable[[], lineages.FoundLineage | None], reporter: progress.Reporter
    ) -> lineages.FoundLineage | None:
        """The lineage that ``look_`` finds. Waits for a storage that is away, until the owner asks to stop."""
        while True:
            try:
                return look_()
            except errors.StorageUnavailable as exc:
                if self._stop.times:
                    raise
                reporter.message(f"waiting for the storage: {exc}")
                self._clock.sleep(STORAGE_RETRY_S)


def look(
    job: settings.JobSettings, folder: workdir.WorkDir, clock: clocks.Clock
) -> lineages.FoundLineage | None:
    """The job's lineage in the storage; None if only the job's code names one, which only the driver runs. Raises as
    :func:`require_known` does, and the errors of the storage."""
    if not lineages.has_storage(job):
        return None
    found = lineages.find(job, clock)
    require_known(job, found, folder)
    return found


def require_known(
    job: settings.JobSettings, found: lineages.FoundLineage | None, folder: workdir.WorkDir
) -> None:
    """Raise ``RestoreBlocked`` if the storage has nothing of a job that had its state there, or only a lineage that was
    begun beside it (on the disk below a volume that is not mounted); otherwise remember the lineage that it has."""
    storage, name = job.checkpoint.storage, lineage.JobName.of(job)
    known = folder.known_lineage(storage, str(name))
    if job.start_empty:
        folder.forget_lineage()
    elif known and (found is None or not lineages.has_had(job, known)):
        lost = lineage.lost(storage, name, known)
        if job.restore_from:  # beside which startEmpty is refused
            lost += f", or, to begin from restoreFrom, delete the file {folder.lineage_file}"
        raise errors.RestoreBlocked(lost)
    elif found is not None and found.state.claim is not None:
        # Only one that a driver has claimed: before that there may be no folder yet.
        folder.record_lineage(storage, str(name), found.lineage.id)


def require_key_space(job: settings.JobSettings, found: lineages.FoundLineage | None) -> None:
    """Raise ``SpecInvalid`` for more shards than key groups, where it is certain that the job begins without state. The
    driver would refuse it too, once Spark has started and the job's code has run."""
    if lineages.has_storage(job):
        here = None if found is None or job.start_empty else found
        state, url = (here.state, here.lineage.store.url) if here else (LogState(), "")
        empty = restore_plan.decide_restore(state, url, job.restore_from, job.start_empty).kind == "empty"
    else:
        empty = naming.is_memory(job.checkpoint.storage) and job.restore_from is None
    if empty:
        keygroups.of_new_job(job.slots, job.max_parallelism, job.shards)


def _opening(
    job: settings.JobSettings, found: lineages.FoundLineage | None, folder: workdir.WorkDir, attempt: int
) -> str:
    """The first line: what is started, where its state comes from, where it works and what it prints is read."""
    if found is None or found.state.restore_point is None:
        state = "no state yet" if job.restore_from is None else f"from {job.restore_from}"
    else:
        point = found.state.restore_point
        state = f"state of lineage {found.lineage.short_id} up to epoch {point.epoch}"
    log = folder.log_file(attempt).relative_to(folder.root)
    slots = "1 slot" if job.slots == 1 else f"{job.slots} slots"
    return f"{job.name}: {slots}, {job.backend.type}, {state}; working in {folder.root}, where {log} has {_PRINTED}"
