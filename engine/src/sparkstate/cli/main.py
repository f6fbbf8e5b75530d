"""``sparkstate``: one group of commands, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import metadata
from typing import Any

import click

from sparkstate import errors
from sparkstate.cli import (
    backends,
    check,
    deleting,
    doctor,
    driver,
    explain,
    init,
    jobs,
    reading,
    run,
    stored_jobs,
    sweeping,
    verifying,
)

INTERRUPTED = 130
USAGE = 2


class _Group(click.Group):
    """Of all commands. When the reader of our output leaves (``sparkstate status | head``), the command ends well:
    there is nothing to say, and nobody to say it to. Click itself would end it with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(metadata.version("sparkstate"), prog_name="sparkstate", message="%(prog)s %(version)s")
@click.option(
    "--debug",
    is_flag=True,
    envvar="SPARKSTATE_DEBUG",
    help="Show the traceback of an error, not only its message.",
)
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Flink-style keyed state, checkpoints and savepoints for PySpark Structured Streaming.

    \b
    Start here:
      sparkstate doctor              what this machine has, and what installs the rest
      sparkstate init my-job         write a job and its manifest
      sparkstate run my-job/job.yaml run it; Ctrl-C stops it cleanly
    """
    ctx.obj = {"debug": debug}


COMMANDS = (
    init.init,
    run.run,
    explain.explain,
    check.check,
    jobs.status,
    jobs.checkpoints,
    jobs.savepoint,
    jobs.cancel,
    jobs.state,
    stored_jobs.restore_info,
    stored_jobs.savepoints,
    deleting.purge_job,
    doctor.doctor,
    backends.check_backend,
    driver.driver,
)
for command in COMMANDS:
    cli.add_command(command)
for command in (verifying.verify, reading.read, sweeping.sweep):
    stored_jobs.savepoints.add_command(command)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: the error's own, 2 for wrong usage."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = cli.main(args=given, prog_name="sparkstate", standalone_mode=False)
    except click.ClickException as exc:
        exc.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return INTERRUPTED
    except errors.SparkstateError as exc:
        return _fail(given, str(exc), exc.exit_code)
    except Exception as exc:
        return _fail(given, f"unexpected {type(exc).__name__}: {exc}; --debug shows where", 1)
    return code if isinstance(code, int) else 0


def _fail(given: list[str], message: str, code: int) -> int:
    if "--debug" in given or os.environ.get("SPARKSTATE_DEBUG"):
        traceback.print_exc()
    click.echo(f"error: {message}", err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
