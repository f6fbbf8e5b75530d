"""``sparkstate driver``: becomes the driver process, as the runner and the operator start it."""

from __future__ import annotations

import os
import sys

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def driver(arguments: tuple[str, ...]) -> None:
    """Run one attempt of a job in this process, unsupervised. For containers; `run` is for people.

    All arguments go to `python -m sparkstate.driver`; `sparkstate driver --help` lists them.
    """
    os.execv(sys.executable, [sys.executable, "-m", "sparkstate.driver", *arguments])
