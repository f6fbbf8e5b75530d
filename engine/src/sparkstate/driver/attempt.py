"""One attempt of a job in this process, from the settings to the outcome: its endpoint, its signals, its driver.

Imported when Spark is starting already: what this takes to load is loaded meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from sparkstate import clock, errors, keys, phases
from sparkstate.control import driver_life, server
from sparkstate.control.documents import DriverPhase, JobIdentity
from sparkstate.driver import termination_policy
from sparkstate.driver.code_settings import CodeSettings
from sparkstate.driver.context import DriverContext
from sparkstate.driver.control import DriverControl, progress_timeout_s
from sparkstate.driver.job import JobDriver
from sparkstate.driver.outcomes import Outcome
from sparkstate.driver.requests import Requests
from sparkstate.driver.savepoint_targets import Targets
from sparkstate.driver.view import JobView
from sparkstate.settings import JobSettings
from sparkstate.slots.last_lines import Hiding, LastLines
from sparkstate.slots.starting import LocalSlots
from sparkstate.spark.session import Beginning


def run(
    options: Namespace,
    settings: JobSettings,
    notices: Sequence[str],
    spark: Beginning,
    slots_here: LocalSlots | None,
    last_word: Callable[[str], object],
    heard: LastLines,
    code: CodeSettings | None = None,
) -> Outcome:
    """Runs until the job ends; raises the error that ended it, if one did.
    ``last_word``: see ``termination_policy.Grace``; ``heard``: what this process says; ``code``: see the context's."""
    system_clock = clock.SystemClock()
    name = f"{settings.cluster}/{settings.namespace}/{settings.name}"
    identity = JobIdentity(job_uid=settings.pod.job_uid if settings.pod else name, attempt=options.attempt)
    view = JobView(identity, settings.name, settings.namespace, settings.backend.type, system_clock)
    view.note_notices(notices)
    requests = Requests()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: requests.cancelled.set())

    def saved(repeat_s: float) -> object:
        return None

    if settings.pod is not None:
        grace = termination_policy.Grace(settings.pod.grace_s, requests, lambda: phase_of(view), last_word)
        signal.signal(signal.SIGTERM, lambda *_: grace.begin())
        saved = grace.saved
    own = keys.load(options.token_file) if options.token_file else keys.of_token(secrets.token_urlsafe(32))
    hiding = Hiding.of_process(os.environ, own.admin, own.read, own.slots, own.token)
    context = DriverContext(
        settings=settings,
        attempt=options.attempt,
        spark=spark,
        slots_here=slots_here,
        keys=own,
        work_dir=Path(settings.work_dir),
        view=view,
        requests=requests,
        clock=system_clock,
        phases=phases.Phases("driver", system_clock, os.environ),
        rng=random.Random(),
        began_s=system_clock.monotonic(),
        say=lambda text: print(text, flush=True),
        saved=saved,
        code=code or CodeSettings(),
    )
    job = JobDriver(context)
    current = job.current
    host, port = server.parse(options.listen)
    control = DriverControl(
        view,
        requests,
        current.find_savepoint,
        current.slots,
        current.next_checkpoint_id,
        Targets(settings.s3, current.lineage_url, made=current.may_make_target).require,
        progress_timeout_s(os.environ, settings.trigger),
        own_lines=lambda: hiding.lines(heard.raw()),
    )
    with contextlib.ExitStack() as doors:
        endpoint = doors.enter_context(server.ControlServer(control, own, host, port))
        if settings.metrics_port is not None:
            doors.enter_context(server.MetricsServer(endpoint, host, settings.metrics_port, system_clock))
        view.observers(endpoint.metrics.observe_epoch, endpoint.metrics.observe_checkpoint)
        _write_status(
            options.status_file, {"pid": os.getpid(), "address": endpoint.address, "attempt": options.attempt}
        )
        try:
            outcome = job.run()
        except errors.SparkstateError:
            view.happened(driver_life.FAILS)
            raise
        finally:
            requests.fail_open("the job has ended")
        view.happened(driver_life.FINISHES)
    return outcome


def phase_of(view: JobView) -> DriverPhase:
    """The phase for a last checkpoint: a driver that has not claimed the job's state has nothing to save, even while
    it waits for the storage (``PAUSED``)."""
    return view.phase if view.has_lineage else DriverPhase.STARTING


def _write_status(path: Path | None, document: dict[str, object]) -> None:
    if path is None:
        return
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(document))
    temporary.replace(path)
