"""The start of an incarnation, and its end: what is begun here in one order ends here in the other.

The slots start beside the query, because Spark takes as long to plan the first epoch as they take to start. However far
a start has come when it fails, it is ended as after a run.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from sparkstate import clock, local_disk, phases
from sparkstate.control import driver_life
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.first_epoch import FirstEpoch
from sparkstate.driver.incarnation import Incarnation
from sparkstate.driver.parts import LastHomes, Origin, Parts
from sparkstate.driver.pausing import Pauses
from sparkstate.driver.slot_pool import SlotPool
from sparkstate.driver.storage_outages import heard
from sparkstate.driver.watching import Loss, WallClock, watch_clock
from sparkstate.spark import capture, epochs, feeding, query, shipping, watermarks
from sparkstate.spark.watermarks import Watermarks

_LAST_EPOCH_S = 10.0
"""How long the end of an incarnation waits for the end of an epoch that nobody asks for any more."""


@contextlib.contextmanager
def started(parts: Parts, origin: Origin, homes: LastHomes) -> Iterator[Incarnation]:
    """Slots that hold their state, and a query that runs. At the end no slot and no directory is
    left, whatever happened.

    ``homes``: where this driver's slots have been until now; then where these are.
    """
    over = threading.Event()
    with contextlib.ExitStack() as ends:
        try:
            yield _start(parts, origin, homes, over, ends)
        finally:
            over.set()


def _start(
    parts: Parts, origin: Origin, homes: LastHomes, over: threading.Event, ends: contextlib.ExitStack
) -> Incarnation:
    """``ends`` unwinds from the bottom. First nobody waits for a checkpoint any more, and no epoch begins. Once the
    last epoch has ended, its threads, the slots, and the query's folders go."""
    context = parts.context
    context.phases.enter(phases.ProcessPhase.RESTORE, incarnation=origin.number)
    context.view.happened(driver_life.RESTORES)
    directory = context.work_dir / "query" / f"{origin.number:05d}"
    ends.callback(_remove, directory)
    # Entered before there are slots: the end of the last epoch still needs them.
    after_epochs = ends.enter_context(contextlib.ExitStack())
    pipeline = EpochPipeline()
    ends.callback(pipeline.close, _LAST_EPOCH_S)
    loss = Loss(over)
    _watch_clock(parts, over, loss)
    first = FirstEpoch(over)
    with ThreadPoolExecutor(1, thread_name_prefix="slot-pool") as pool:
        pool_starts = pool.submit(SlotPool.start, parts, origin.number, origin.key_space, homes.addresses)
        try:
            running = _query(parts, origin, directory, first, ends)
        finally:  # without a query, too, slots that have started are to be stopped
            slot_pool = pool_starts.result()
            after_epochs.callback(slot_pool.stop)
            homes.addresses = slot_pool.group.addresses
    context.reached("the slots have started")
    slot_pool.watch_executors(over, loss.note)
    pauses = Pauses(parts, lambda: loss.error, over)
    runner = _runner(parts, origin, slot_pool, pauses, running)
    after_epochs.callback(runner.close)
    ends.callback(runner.end_rehearsal)
    first.manned(runner)
    # A restore is nobody's idleness: the first epoch after one took every partition for idle, and the rows of those
    # that lagged behind were late.
    with runner.paused.measured():
        read = heard(partial(slot_pool.restore, origin.restored), context.requests.ending)
    context.reached(f"their state is restored ({read})")
    checkpoints = _checkpoints(parts, origin, slot_pool)
    ends.callback(checkpoints.abandon)
    runner.end_rehearsal()
    loop = EpochLoop(parts, origin, running, runner, checkpoints, pauses, pipeline)
    # Before the first epoch, which may be told to stop the job, and is then not the one that says it runs.
    context.view.happened(driver_life.FILLED)
    first.filled(loop)
    return Incarnation(parts, slot_pool, running, loop, checkpoints, pipeline, loss, over)


def _watch_clock(parts: Parts, over: threading.Event, loss: Loss) -> None:
    """From before the query, which begins with the time that it finds. Bounded input is not paced by the clock."""
    if parts.heartbeat:
        wall_clock = WallClock(parts.context.clock)
        watch = threading.Thread(
            target=watch_clock, args=(wall_clock, over, loss), name="clock-watch", daemon=True
        )
        watch.start()


def _query(
    parts: Parts, origin: Origin, directory: Path, first: FirstEpoch, ends: contextlib.ExitStack
) -> query.Query:
    with local_disk.needed_for("the source position cannot be written", directory.parent):
        parts.job_storage.seed_position(origin.restored, directory, heartbeat=parts.heartbeat)
    prepared, context = parts.prepared, parts.context
    running = query.Query.start(
        prepared.session,
        prepared.declared,
        directory,
        context.settings.trigger,
        first.on_epoch,
        context.clock,
        selected=shipping.in_query(prepared.declared, origin.key_space.max_parallelism),
        tasks=feeding.tasks_at_once(prepared.session, context.settings.slots),
    )
    ends.callback(_stop, running)
    return running


def _runner(
    parts: Parts, origin: Origin, slot_pool: SlotPool, pauses: Pauses, running: query.Query
) -> epochs.EpochRunner:
    prepared, context = parts.prepared, parts.context
    return epochs.EpochRunner(
        prepared.session,
        prepared.declared,
        origin.key_space,
        slot_pool.group,
        _watermarks(parts, origin),
        context.clock,
        context.phases,
        pauses.may_go_on,
        context.settings.sink_timeout_s,
        is_selected=running.is_selected,
        note_progress=context.view.note_progress,
    )


def _watermarks(parts: Parts, origin: Origin) -> Watermarks:
    fresh = watermarks.fresh(parts.prepared.declared.sources, clock.monotonic_ms(parts.context.clock))
    metadata = origin.restored.metadata
    return fresh if metadata is None else fresh.restored(watermarks.stored_in(metadata))


def _checkpoints(parts: Parts, origin: Origin, slot_pool: SlotPool) -> Checkpoints:
    context = parts.context
    return Checkpoints(
        slot_pool.group,
        parts.job_storage,
        context.settings.checkpoint,
        context.requests,
        context.view,
        context.clock,
        context.phases,
        origin.key_space,
        base=origin.base,
    )


def _stop(running: query.Query) -> None:
    """The query may have failed already, and the rest must end as well."""
    with contextlib.suppress(Exception):
        running.stop()
    running.forget()


def _remove(directory: Path) -> None:
    for folder in (directory, capture.links_of(directory)):
        shutil.rmtree(folder, ignore_errors=True)
