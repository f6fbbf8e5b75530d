"""The command that shows the entries of a snapshot: savepoints read."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import click

from sparkstate.checkpoint import savepoint
from sparkstate.cli import stored_jobs, targets
from sparkstate.stored import entries


@click.command("read")
@click.argument("url", metavar="SAVEPOINT-URL")
@click.option("--operator", metavar="UID", help="Only the state of this operator.")
@click.option("--state", metavar="NAME", help="Only the state of this name.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="End after N entries.")
@targets.s3_options
def read(
    url: str, operator: str | None, state: str | None, limit: int | None, job: str | None, **s3: Any
) -> None:
    """Print the entries of a savepoint as lines of JSON: one for each value, element of a list, entry of a
    map and timer.

    The files alone are read: no job has to run, and none of its code is loaded. Enums are the names of their
    constants, and pickled objects are bytes in base64. Entries come in no order that can be relied on, except those of
    a list. Checkpoints can be read as well, those in RocksDB's own files too.

    \b
    Examples:
      sparkstate savepoints read s3://bucket/state/savepoints/savepoint-1f2d3c-8a9b --operator rotation
      sparkstate savepoints read /data/savepoint-1f2d3c-8a9b --state total | jq 'select(.value > 100)'
    """
    place = stored_jobs.of_snapshot(url, job, **s3)
    with stored_jobs.must_be_snapshot(place):
        found = savepoint.open_snapshot(place.url, place.open)
    with tempfile.TemporaryDirectory(prefix="sparkstate-read-") as folder:
        for entry in itertools.islice(entries.read(found, Path(folder), operator, state), limit):
            click.echo(_line(entry))


def _line(entry: entries.Entry) -> str:
    line = json.dumps(entry, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # half of a character, which a key may have
        return json.dumps(entry)
    return line
