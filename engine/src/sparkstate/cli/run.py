"""``sparkstate run``: one job, from its manifest, on this machine."""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
from pathlib import Path
from types import FrameType

import click

from sparkstate import clock as clocks
from sparkstate.cli import manifests
from sparkstate.runner import running, watching


@click.command()
@manifests.manifest_argument
@manifests.set_option
@manifests.work_dir_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Where the control endpoint and the job's page listen; no host: every address, port 0: a free one.",
)
@click.option("--no-progress", is_flag=True, help="Messages only, no progress.")
def run(
    manifest_path: Path, overrides: tuple[str, ...], work_dir: Path | None, listen: str, no_progress: bool
) -> None:
    """Run a job with local Spark, restart it when it fails, stop it cleanly on Ctrl-C.

    The job goes on from its last checkpoint or savepoint, if its name has state in the checkpoint storage.
    One Ctrl-C (or SIGTERM) stops it after the running epoch, with a savepoint if the manifest says savepoints.onStop; a
    second one kills it. It is started again after a failure as the manifest's restart strategy says.

    \b
    Exit codes: 0 finished or stopped, 1 failed, 2 wrong manifest, 3 restore blocked,
    4 another driver owns the state, 5 storage refused, 130 killed by a second Ctrl-C.

    \b
    Examples:
      sparkstate run job.yaml
      sparkstate run job.yaml --set spec.slots=4 --set spec.checkpointing.interval=5s
    """
    stop = watching.StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.ask()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ask)
    runner = running.Runner(
        environ=os.environ,
        stream=sys.stdout,
        clock=clocks.SystemClock(),
        rng=random.Random(),
        new_token=lambda: secrets.token_hex(32),
        stop=stop,
    )
    options = running.Options(
        manifest=manifest_path,
        overrides=overrides,
        work_dir=work_dir,
        listen=listen,
        show_progress=not no_progress,
    )
    raise click.exceptions.Exit(runner.run(options))
