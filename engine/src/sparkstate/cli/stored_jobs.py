"""Commands that read a storage folder while no driver needs to run: restore-info, savepoints list."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from sparkstate import clock as clocks
from sparkstate import errors, settings, storage
from sparkstate.cli import machine, manifests, output, targets
from sparkstate.log import lineage
from sparkstate.runner import progress
from sparkstate.storage import mounts
from sparkstate.stored import documents, jobs, snapshots
from sparkstate.stored.place import Place

_TARGETS: Final = "give a manifest, a checkpoint storage or a savepoint's folder"


@click.command("restore-info")
@click.argument("target", metavar="JOB.YAML|URL", required=False)
@machine.options
@manifests.set_option
@targets.s3_options
@output.format_option("json", "yaml")
def restore_info(
    target: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    manifest_path: str | None,
    termination_log: Path | None,
    form: str,
    job: str | None,
    **s3: Any,
) -> None:
    """Read what a job could be restored from, out of the storage alone: no driver is needed.

    The target is a manifest, a checkpoint storage (all its jobs, or the one that --job names), or the
    folder of one checkpoint or savepoint.

    \b
    Examples:
      sparkstate restore-info job.yaml
      sparkstate restore-info s3://bucket/state --job rotations --json
      sparkstate restore-info /data/state/savepoints/savepoint-1f2d3c-8a9b
    """
    place = targets.stored(machine.target(target, manifest_path), overrides, s3_settings(**s3), job)
    if as_json:
        machine.answer(lambda: _plain(place), termination_log, machine.brief)
        return
    found = _look(place)
    if form != "table":
        output.emit(_document(found, place), form)
    elif isinstance(found, documents.SnapshotInfo):
        _show_snapshot(found)
    else:
        for index, one in enumerate(found):
            if index:
                click.echo()
            _show_job(one)


def _plain(place: Place) -> dict[str, Any]:
    """For programs: a job that nothing was ever stored of is an answer, not an error. A folder that a pod cannot see is
    one: the operator would begin an empty job beside its state."""
    try:
        found: dict[str, Any] = _document(_look(place), place)
    except errors.NotFound as error:
        if place.job is None:
            raise
        # On one machine a job that has never run has no folder yet, and nothing is mounted above it.
        if place.job.cluster != targets.NO_CLUSTER:
            mounts.require_reachable(place.url)
        return {"found": False, "message": str(error)}
    return {"found": True, **found}


def s3_settings(s3_endpoint: str | None, s3_region: str | None, s3_path_style: bool) -> settings.S3Settings:
    """From the options of ``targets.s3_options``."""
    return settings.S3Settings(endpoint=s3_endpoint, region=s3_region, path_style=s3_path_style)


def _look(place: Place) -> documents.SnapshotInfo | list[documents.JobInfo]:
    try:
        root = place.open()
    except errors.NotFound:
        raise _no_folder(place) from None
    names = [place.job] if place.job else lineage.names(root)
    found = [jobs.job_info(root, name, place.open, clocks.SystemClock()) for name in names]
    present = [one for one in found if one is not None]
    if present:
        return present
    if place.job is not None:
        raise _nothing(place, f"no lineage of the job {place.job}")
    try:
        return snapshots.read(place.url, place.open)
    except errors.NotFound:
        raise _nothing(place, "neither jobs nor a checkpoint or savepoint") from None


def _no_folder(place: Place) -> errors.NotFound:
    return errors.NotFound(f"there is no folder {place.url}; {_TARGETS}")


def _nothing(place: Place, what: str) -> errors.NotFound:
    return errors.NotFound(f"{place.url} holds {what}; {_TARGETS}")


def _document(found: documents.SnapshotInfo | list[documents.JobInfo], place: Place) -> Any:
    if isinstance(found, documents.SnapshotInfo):
        return asdict(found)
    return asdict(found[0]) if place.job is not None else {"jobs": [asdict(one) for one in found]}


def _show_job(job: documents.JobInfo) -> None:
    output.pairs(
        [
            ("job", f"{job.cluster}/{job.namespace}/{job.name}"),
            ("lineage", f"{job.lineage}, since {output.moment(job.created_ms)}"),
            ("folder", job.url),
            ("attempt", f"{job.attempt}, life {job.life}" if job.attempt is not None else None),
            ("incarnation", job.incarnation),
            ("closed by", job.closed_by),
            ("restores", _short(job.restore_point) if job.restore_point else "nothing has completed yet"),
            ("problem", job.problem),
        ]
    )
    if job.restore_point is not None:
        click.echo()
        _show_snapshot(job.restore_point)
    if job.checkpoints:
        click.echo()
        header = ("CHECKPOINT", "EPOCH", "COMPLETED", "STATE", "UPLOADED", "URL")
        output.table(header, [_checkpoint_row(one) for one in job.checkpoints])
    if job.savepoints:
        click.echo()
        _savepoint_table(job.savepoints)


def _short(snapshot: documents.SnapshotInfo) -> str:
    return f"{snapshot.kind} {snapshot.id}, epoch {snapshot.epoch}, {snapshot.url}"


def _checkpoint_row(one: documents.SnapshotInfo) -> tuple[object, ...]:
    state, uploaded = progress.size(one.state_bytes), progress.size(one.uploaded_bytes)
    return one.id, one.epoch, output.moment(one.timestamp_ms), state, uploaded, one.url


def _show_snapshot(snapshot: documents.SnapshotInfo) -> None:
    ended = "the input has ended" if snapshot.drained else None
    output.pairs(
        [
            (snapshot.kind, f"{snapshot.id} of {snapshot.job}, lineage {snapshot.lineage}"),
            ("url", snapshot.url),
            ("trigger id", snapshot.trigger_id),
            ("epoch", snapshot.epoch),
            ("watermark", ended or output.moment(snapshot.watermark_ms)),
            (
                "completed",
                f"{output.moment(snapshot.timestamp_ms)}, took {progress.duration(snapshot.duration_ms)}",
            ),
            ("state", f"{progress.size(snapshot.state_bytes)} in {snapshot.files} files, {snapshot.backend}"),
            ("key space", f"{snapshot.max_parallelism} key groups in {snapshot.shards} shards"),
            ("slots", f"{snapshot.slots} when it was taken"),
            ("committables", snapshot.committables or None),
        ]
    )
    rows = [
        (operator.uid, state.name, state.kind, state.key_type, state.value_type)
        for operator in snapshot.operators
        for state in operator.states
    ]
    if rows:
        click.echo()
        output.table(("OPERATOR", "STATE", "KIND", "KEY", "VALUE"), rows)


def _savepoint_table(savepoints: list[documents.SavepointInfo]) -> None:
    rows = [(one.trigger_id, one.epoch, output.moment(one.timestamp_ms), one.url) for one in savepoints]
    output.table(("SAVEPOINT", "EPOCH", "COMPLETED", "URL"), rows)


@click.group()
def savepoints() -> None:
    """List and delete the savepoints of a job, out of its storage."""


@savepoints.command("list")
@click.argument("target", metavar="JOB.YAML|URL")
@manifests.set_option
@targets.s3_options
@output.format_option("json", "yaml")
def list_savepoints(target: str, overrides: tuple[str, ...], form: str, job: str | None, **s3: Any) -> None:
    """List the completed savepoints of a job, oldest first.

    \b
    Examples:
      sparkstate savepoints list job.yaml
      sparkstate savepoints list s3://bucket/state --job default/rotations -o json
    """
    place = targets.stored(target, overrides, s3_settings(**s3), job)
    root, name = one_job(place)
    found = jobs.job_info(root, name, place.open, clocks.SystemClock())
    made = found.savepoints if found is not None else []
    if form != "table":
        output.emit([asdict(one) for one in made], form)
    elif made:
        _savepoint_table(made)
    else:
        click.echo(f"{name} has no savepoints")


def one_job(place: Place) -> tuple[storage.ObjectStore, lineage.JobName]:
    """The storage and the one job in it that is meant. Raises ``NotFound``, or ``SpecInvalid`` if there are several."""
    try:
        root = place.open()
    except errors.NotFound:
        raise _no_folder(place) from None
    if place.job is not None:
        return root, place.job
    names = lineage.names(root)
    if len(names) != 1:
        known = ", ".join(map(str, names)) or "none"
        raise errors.SpecInvalid(f"{place.url} holds {len(names)} jobs ({known}); name one with --job")
    return root, names[0]


def of_snapshot(url: str, job: str | None, **s3: Any) -> Place:
    """The place that the URL of one savepoint or checkpoint means; ``job`` is then refused."""
    if job is not None:
        raise click.UsageError("--job has no use here, because the URL names the savepoint; leave it out")
    place = targets.stored(url, (), s3_settings(**s3), None)
    if place.job is not None:
        raise click.UsageError(
            f"{url} is a manifest; give the URL of one savepoint or checkpoint. `sparkstate savepoints list {url}` "
            "shows the job's savepoints"
        )
    return place


@contextlib.contextmanager
def must_be_snapshot(place: Place) -> Iterator[None]:
    """Whoever reads it meanwhile and does not find it gets a ``StorageError`` with the remedy. For the operator that is
    the last word on a URL, and ``NotFound`` a reason to run the command again."""
    try:
        yield
    except errors.NotFound as error:
        raise errors.StorageError(
            f"{place.url} is not a savepoint or checkpoint: {error}; name the folder that holds _metadata"
        ) from error
