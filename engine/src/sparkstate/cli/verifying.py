"""The command that looks whether a savepoint could be restored: savepoints verify."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sparkstate.cli import machine, output, stored_jobs, targets
from sparkstate.stored import snapshots


@click.command("verify")
@click.argument("url", metavar="SAVEPOINT-URL")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option(
    "--termination-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the answer to this file, in short.  [default: /dev/termination-log if there is one]",
)
@targets.s3_options
@machine.answering
def verify(url: str, as_json: bool, termination_log: Path | None, job: str | None, **s3: Any) -> None:
    """Read what a savepoint (or checkpoint) says of itself, and look for every file that it names.

    Sizes are compared; the bytes themselves are checked by the restore. Exit code 5 if anything is missing.

    \b
    Example:
      sparkstate savepoints verify s3://bucket/state/savepoints/savepoint-1f2d3c-8a9b
    """
    place = stored_jobs.of_snapshot(url, job, **s3)

    def found() -> dict[str, Any]:
        with stored_jobs.must_be_snapshot(place):
            return asdict(snapshots.verified(place.url, place.open))

    if as_json:
        machine.answer(found, termination_log, machine.brief)
        return
    told = found()
    output.pairs([("verified", told["url"]), ("files", told["files"]), ("epoch", told["epoch"])])
