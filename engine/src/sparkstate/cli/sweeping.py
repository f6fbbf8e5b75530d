"""The command that finds savepoint folders which belong to nobody, and deletes them when told to: savepoints sweep."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import click

from sparkstate import clock as clocks
from sparkstate import errors, manifest
from sparkstate.checkpoint import orphans
from sparkstate.cli import machine, manifests, stored_jobs, targets
from sparkstate.log.lineage import JobName
from sparkstate.runner import progress
from sparkstate.storage import layout, mounts, naming

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
KINDS = ("StatefulSparkJob", "StateSnapshot")


@click.command("sweep")
@click.argument("target", metavar="JOB.YAML|URL", required=False)
@click.option(
    "--objects",
    type=click.File("r"),
    required=True,
    metavar="FILE",
    help="File with the output of `kubectl get ssj,snap -A -o json`; - reads standard input.",
)
# Nothing goes without a word: a user may keep a savepoint for years with no object for it in this cluster (RFC 0019).
@click.option(
    "--dry-run/--delete", default=True, show_default=True, help="Only list the savepoints, or delete them."
)
@click.option(
    "--older-than",
    default="24h",
    show_default=True,
    metavar="AGE",
    help="Spare folders with a younger file: 90m, 24h, 7d.",
)
@click.option(
    "--below",
    multiple=True,
    metavar="URL",
    help="Look below this folder too; may be given several times.  [default: the job's places]",
)
@click.option(
    "--job-is-gone",
    is_flag=True,
    help="Delete even though the list names neither the job nor a savepoint of it.",
)
@machine.options
@manifests.set_option
@targets.s3_options
def sweep(
    target: str | None,
    objects: TextIO,
    dry_run: bool,
    older_than: str,
    below: tuple[str, ...],
    job_is_gone: bool,
    overrides: tuple[str, ...],
    as_json: bool,
    manifest_path: str | None,
    termination_log: Path | None,
    job: str | None,
    **s3: Any,
) -> None:
    """Find savepoint folders of one job that no StateSnapshot and no job names; --delete deletes them.

    Spared are: what an object names, by folder or trigger, pinned or not; what the job would restore from, was
    stopped with, or began from; what a driver may still be writing; folders of other jobs, also of a job of the
    same name in another cluster; and whatever has a file younger than --older-than.

    \b
    Examples:
      kubectl get ssj,snap -A -o json > objects.json
      sparkstate savepoints sweep s3://bucket/state --job blue/shop/orders --objects objects.json
      sparkstate savepoints sweep s3://bucket/state --job blue/shop/orders --objects objects.json --delete

    --delete refuses a list that names neither the job nor a savepoint of it, which may be another cluster's.
    """
    named = machine.target(target, manifest_path)
    place = targets.stored(named, overrides, stored_jobs.s3_settings(**s3), job)
    items = listed(objects)
    kept = set(_named(items))
    least_age_s = _seconds(older_than)
    parents = {f"{place.url.rstrip('/')}/{layout.SAVEPOINTS}", *below, *_of_manifest(named, overrides)}

    def swept() -> dict[str, Any]:
        try:
            root, name = stored_jobs.one_job(place)
        except errors.NotFound:
            mounts.require_reachable(place.url)
            raise
        clock = clocks.SystemClock()
        found, spared = orphans.find(
            root, name, parents, place.open, clock, kept=kept, least_age_s=least_age_s
        )
        if not dry_run:
            # With another cluster's list, every savepoint but the newest seemed to belong to nobody, and was deleted.
            if found and not job_is_gone and not _knows(items, name, spared):
                raise errors.SpecInvalid(
                    f"--objects {objects.name} names neither the job {name} nor a savepoint of it: it may be another "
                    "cluster's list; if the job has been deleted, say so with --job-is-gone"
                )
            orphans.delete(root, name, found, place.open, clock)
        return {
            "dry_run": dry_run,
            "orphans": [asdict(one) for one in found],
            "spared": [asdict(one) for one in spared],
            "size_bytes": sum(one.size_bytes for one in found),
        }

    if as_json:
        machine.answer(swept, termination_log, _brief)
        return
    _tell(swept())


def listed(objects: TextIO) -> list[Mapping[str, Any]]:
    """The objects. Raises ``SpecInvalid`` for anything but a list of them: with a list that was cut or of something
    else, everything would seem to belong to nobody."""
    try:
        document = json.load(objects)
    except ValueError as error:
        raise errors.SpecInvalid(
            f"--objects {objects.name} is not JSON ({error}); give the output of `kubectl get ssj,snap -A -o json`"
        ) from error
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) and item.get("kind") in KINDS for item in items
    ):
        raise errors.SpecInvalid(
            f"--objects {objects.name} is not a list of {' and '.join(KINDS)}; give the output of "
            "`kubectl get ssj,snap -A -o json`"
        )
    if not items:
        raise errors.SpecInvalid(
            f"--objects {objects.name} names no object at all, so every savepoint would seem to belong to nobody; "
            "delete savepoints by their URLs, or all of a job with `sparkstate purge`"
        )
    return items


def _knows(items: Iterable[Mapping[str, Any]], job: JobName, spared: Iterable[orphans.SparedFolder]) -> bool:
    """Whether this can be a list of the job's cluster: it has the job, or names a savepoint of it."""
    return any(_is_of(item, job) for item in items) or any(one.why == orphans.NAMED for one in spared)


def _is_of(item: Mapping[str, Any], job: JobName) -> bool:
    """By cluster, namespace and name. An object that has not been started yet does not say its cluster."""
    metadata, status = (item.get(name) or {} for name in ("metadata", "status"))
    names = (metadata.get("namespace", job.namespace), metadata.get("name"))
    cluster = status.get("cluster", job.cluster)
    return item["kind"] == KINDS[0] and (cluster, *names) == (job.cluster, job.namespace, job.name)


def _named(value: Any) -> Iterator[str]:
    """URLs and trigger ids wherever they stand: fields are added over time, and a missed one would cost a savepoint."""
    if isinstance(value, Mapping):
        for name, child in value.items():
            if name == "triggerId" and isinstance(child, str):
                yield child
            yield from _named(child)
    elif isinstance(value, list):
        for child in value:
            yield from _named(child)
    elif isinstance(value, str) and re.match(r"(s3[an]?|file)://|file:/|/", value):
        # A URL with a # or ? is refused now, and meant the folder before it once.
        for text in {value, re.split("[?#]", value)[0]}:
            with contextlib.suppress(errors.SpecInvalid):
                yield naming.normalise_url(text.removesuffix(f"/{layout.METADATA}"))


def _seconds(age: str) -> float:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", age)
    if match is None:
        raise errors.SpecInvalid(f"--older-than {age!r} is not an age; write it as 90m, 24h or 7d")
    return float(int(match[1]) * _UNITS[match[2]])


def _of_manifest(target: str, overrides: tuple[str, ...]) -> set[str]:
    """Where the manifest has its savepoints written."""
    if not (Path(target).is_file() and target.endswith((".yaml", ".yml", ".json"))):
        return set()
    loaded = manifest.load(Path(target), overrides)
    told = manifest.resolve(loaded).settings.savepoint.storage
    return {told} if told else set()


def _brief(document: Mapping[str, Any]) -> dict[str, Any]:
    lists = ("orphans", "spared")
    short = {name: value for name, value in document.items() if name not in lists}
    return {**short, "counts": {name: len(document[name]) for name in lists}}


def _tell(done: Mapping[str, Any]) -> None:
    verb = "would delete" if done["dry_run"] else "deleted"
    for one in done["orphans"]:
        kind = "" if one["complete"] else ", never completed"
        click.echo(f"{verb} {one['url']} ({one['files']} files, {progress.size(one['size_bytes'])}{kind})")
    for one in done["spared"]:
        click.echo(f"spared {one['url']}: {one['why']}")
    size = progress.size(done["size_bytes"])
    click.echo(f"{verb} {len(done['orphans'])} savepoints, {size}; spared {len(done['spared'])}")
