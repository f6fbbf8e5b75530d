"""Commands that delete from a storage folder, whether a driver runs or not: savepoints delete, purge."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.checkpoint import purge
from sparkstate.checkpoint import savepoint as checkpoint_savepoint
from sparkstate.checkpoint.removal import Removal
from sparkstate.cli import command_progress, machine, manifests, stored_jobs, targets
from sparkstate.log import lineage
from sparkstate.log.log import LineageLog
from sparkstate.runner import progress
from sparkstate.storage import mounts
from sparkstate.stored.place import Place


@stored_jobs.savepoints.command("delete")
@click.argument("arguments", metavar="[JOB.YAML|URL] SAVEPOINT-URL...", nargs=-1)
@click.option(
    "--trigger-id",
    metavar="ID",
    help="Instead of URLs: whatever this trigger made, completed or not, by the job's log.",
)
@click.option("--force", is_flag=True, help="Delete even what a restart of the job would need.")
@machine.options
@manifests.set_option
@targets.s3_options
def delete_savepoints(
    arguments: tuple[str, ...],
    trigger_id: str | None,
    force: bool,
    overrides: tuple[str, ...],
    as_json: bool,
    manifest_path: str | None,
    termination_log: Path | None,
    job: str | None,
    **s3: Any,
) -> None:
    """Delete savepoints with all their files, even while their job runs or is down.

    With a manifest or a storage, they are savepoints of that job: each is first marked in the job's log,
    so a restore never begins from one that is being deleted. A savepoint's URL alone is enough where the
    storage lies beside it; a folder that was moved or copied is deleted as it is. Deleting one again
    finishes what was interrupted. With --trigger-id the savepoint is looked up in the job's log; one that is
    not complete is given up.

    \b
    Examples:
      sparkstate savepoints delete job.yaml file:///data/savepoints/savepoint-1f2d3c-8a9b
      sparkstate savepoints delete s3://bucket/state/savepoints/savepoint-1f2d3c-8a9b
      sparkstate savepoints delete s3://bucket/state --job default/shop/orders --trigger-id before-upgrade
    """
    given: str | None = None
    urls: tuple[str, ...] = ()
    if trigger_id is not None:
        target = _whose_trigger(trigger_id, arguments, manifest_path)
    else:
        given, urls = _what_to_delete(arguments, manifest_path)
        target = given or urls[0]
        if given is None and job is not None:
            raise click.UsageError(
                f"--job {job} has no use beside {target} alone, which names the savepoint; leave it out, or give the "
                "URL of the checkpoint storage before the savepoint's"
            )
    place = targets.stored(target, overrides, stored_jobs.s3_settings(**s3), job)

    def deleted() -> dict[str, Any]:
        with command_progress.shown("deletion", clocks.SystemClock()) as tell:
            removal = Removal(tell)
            if trigger_id is not None:
                return _delete_triggered(place, trigger_id, removal, force=force)
            there = {
                url: _delete(place, url, removal, force=force, of_a_job=given is not None) for url in urls
            }
        return {"deleted": [url for url in urls if there[url]], "absent": [u for u in urls if not there[u]]}

    if as_json:
        machine.answer(deleted, termination_log)
        return
    done = deleted()
    for url in done["deleted"]:
        click.echo(f"deleted {url}")
    for what in done["absent"]:
        click.echo(f"nothing is at {what}" if trigger_id is None else f"the trigger {what} has made nothing")


def _delete_triggered(place: Place, trigger_id: str, removal: Removal, *, force: bool) -> dict[str, Any]:
    try:
        root, name = stored_jobs.one_job(place)
    except errors.NotFound:
        mounts.require_reachable(place.url)  # as for a purge
        return {"deleted": [], "absent": [trigger_id]}
    clock = clocks.SystemClock()
    gone = purge.delete_triggered(root, name, trigger_id, place.open, clock, force=force, removal=removal)
    return {"deleted": gone, "absent": [] if gone else [trigger_id]}


def _whose_trigger(trigger_id: str, arguments: tuple[str, ...], manifest_path: str | None) -> str:
    """The job's manifest or storage."""
    besides = arguments if manifest_path is not None else arguments[1:]
    if besides:
        raise click.UsageError(
            f"--trigger-id {trigger_id} names the savepoint, and {', '.join(besides)} would not be deleted; give "
            "the trigger's id or URLs of savepoints, in a command each"
        )
    return machine.target(arguments[0] if arguments else None, manifest_path)


def _what_to_delete(
    arguments: tuple[str, ...], manifest_path: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """The job's manifest or storage, if one was named, and the savepoints."""
    if not arguments:
        raise click.UsageError("name the savepoints by their URLs, or one by --trigger-id")
    if manifest_path is not None:
        return manifest_path, arguments
    return (None, arguments) if len(arguments) == 1 else (arguments[0], arguments[1:])


def _delete(place: Place, url: str, removal: Removal, *, force: bool, of_a_job: bool) -> bool:
    if not of_a_job:
        clock = clocks.SystemClock()
        return purge.delete_savepoint(url, place.open, clock, force=force, removal=removal)
    root, name = stored_jobs.one_job(place)
    found = lineage.find(root, name)
    if found is None:
        raise errors.NotFound(f"{place.url} holds no lineage of the job {name}")
    log = LineageLog(found.store, clocks.SystemClock())
    kept = checkpoint_savepoint.Savepoints(found, log, place.open, removal=removal)
    kept.delete(url, force=force)
    return True


@click.command("purge")
@click.argument("target", metavar="JOB.YAML|URL", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@machine.options
@manifests.set_option
@targets.s3_options
def purge_job(
    target: str | None,
    yes: bool,
    overrides: tuple[str, ...],
    as_json: bool,
    manifest_path: str | None,
    termination_log: Path | None,
    job: str | None,
    **s3: Any,
) -> None:
    """Delete every checkpoint and savepoint of a job, for good. A job of that name then begins empty.

    A driver that still runs is fenced off. Interrupted, it is run again.

    \b
    Examples:
      sparkstate purge job.yaml
      sparkstate purge s3://bucket/state --job default/rotations --yes
    """
    place = targets.stored(
        machine.target(target, manifest_path), overrides, stored_jobs.s3_settings(**s3), job
    )

    def purged() -> dict[str, Any]:
        try:
            root, name = stored_jobs.one_job(place)
        except errors.NotFound:
            # The operator lets go of a job that is purged. A pod without the job's volume sees no folder either, and
            # answered that all was purged (RFC 0019, 6).
            mounts.require_reachable(place.url)
            return asdict(purge.PurgeResult((), 0, 0, ()))
        if not (yes or as_json):
            click.confirm(f"Delete all checkpoints and savepoints of {name} in {place.url}?", abort=True)
        clock = clocks.SystemClock()
        with command_progress.shown("purge", clock) as tell:
            return asdict(purge.purge(root, name, place.open, clock, "sparkstate purge", tell))

    if as_json:
        machine.answer(purged, termination_log)
        return
    done = purged()
    click.echo(
        f"deleted {done['files']} files ({progress.size(done['size_bytes'])}) and {len(done['savepoints'])} savepoints"
    )
    for url in done["left"]:
        click.echo(f"left {url}: this storage is a copy of the one that the savepoint was taken from")
