"""``sparkstate check``: what would become of each stored state if the job started with its present code."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sparkstate import clock as clocks
from sparkstate import manifest, settings
from sparkstate.cli import machine, manifests, output, targets
from sparkstate.compatibility import report


@click.command()
@manifests.manifest_argument
@manifests.set_option
@click.option(
    "--from",
    "url",
    metavar="URL",
    help="Folder of a savepoint or checkpoint, of a lineage, or a checkpoint storage.  [default: what the job's next "
    "start would restore]",
)
@click.option(
    "--by-savepoint",
    is_flag=True,
    help="The state comes by a savepoint that the running job takes for the change, so that either backend reads it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option(
    "--termination-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --json, also write the answer to this file, in short.  [default: /dev/termination-log if there is one]",
)
@output.format_option("json", "yaml")
@machine.answering
def check(
    manifest_path: Path,
    overrides: tuple[str, ...],
    url: str | None,
    by_savepoint: bool,
    as_json: bool,
    termination_log: Path | None,
    form: str,
) -> None:
    """Tell what would become of each stored state if the job started with its present code.

    Each state is taken up as it is, new, dropped, or refused, with its types before and now. Runs the job's
    function and the open() of every function in it, in local Spark; reads no row, and writes nothing to the storage.

    Exit code 0 if the job would take its state up, 3 if it would be refused.

    \b
    Examples:
      sparkstate check job.yaml
      sparkstate check job.yaml --from s3://bucket/state/savepoints/savepoint-1f2d3c-8a9b
      sparkstate check job.yaml --from /data/state --set spec.slots=8 -o json
    """
    found: list[report.Report] = []

    def work() -> dict[str, Any]:
        found.append(_checked(manifest_path, overrides, url, by_savepoint))
        return found[0].document()

    if as_json:
        machine.answer(work, termination_log, report.shortened)
    elif form != "table":
        output.emit(work(), form)
    else:
        work()
        _show(found[0])
    if not found[0].compatible:
        raise click.exceptions.Exit(report.EXIT_REFUSED)


def _checked(path: Path, overrides: tuple[str, ...], url: str | None, by_savepoint: bool) -> report.Report:
    resolve = _resolver(path, overrides)
    # The job's code may say where its state is. In a cluster, where others look for it, the manifest says so.
    resolved = resolve(place_by_code=not resolve.keywords["in_cluster"])
    # Imported late: PySpark takes seconds, and a wrong manifest should not wait for it.
    from sparkstate.driver import checking, code_settings

    code = code_settings.CodeSettings(resolved.given, lambda leaves: resolve(code=leaves))
    with tempfile.TemporaryDirectory(prefix="sparkstate-check-") as folder, _job_prints_elsewhere():
        job = replace(resolved.settings, work_dir=folder)
        return checking.check(job, url, clocks.SystemClock(), by_savepoint=by_savepoint, code=code)


def _resolver(path: Path, overrides: tuple[str, ...]) -> functools.partial[manifest.Resolved]:
    """``manifest.resolve`` of this manifest, as the driver of its job would call it where this command runs."""
    cluster = os.environ.get(settings.CLUSTER_VARIABLE) or targets.NO_CLUSTER
    loaded = manifest.load(path, overrides)
    return functools.partial(
        manifest.resolve, loaded, cluster=cluster, in_cluster=cluster != targets.NO_CLUSTER
    )


@contextlib.contextmanager
def _job_prints_elsewhere() -> Iterator[None]:
    """Standard output belongs to the report; the job's code, and Spark's JVM, may print there."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _show(told: report.Report) -> None:
    output.pairs([("job", told.job), ("snapshot", told.found), ("url", told.url)])
    if told.states:
        click.echo()
        header = ("OPERATOR", "STATE", "OUTCOME", "STORED", "DECLARED")
        output.table(
            header,
            [(one.operator, one.state, one.outcome.value, one.stored, one.declared) for one in told.states],
        )
    for difference in told.differences:
        click.echo(f"\n{'refused' if difference.refused else 'note'}: {difference.message}")
    for finding in told.states:
        if finding.outcome is report.Outcome.REFUSED:
            click.echo(f"\nrefused: {finding.message}")
    for notice in told.notices:
        click.echo(f"\nnote: {notice}")
    click.echo(f"\n{'the job would take up its state' if told.compatible else 'the job would be refused'}")
