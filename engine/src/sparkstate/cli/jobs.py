"""Commands that talk to a running job: status, checkpoints, savepoint, cancel, state."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any, Final, get_args

import click
from pydantic import BaseModel, ValidationError

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.cli import output, targets
from sparkstate.control import client, documents
from sparkstate.runner import progress
from sparkstate.settings import SavepointFormat

_LOOK_S: Final = 1.0
"""How often a driver is asked how far its savepoint is."""
_MOST_SECONDS: Final = 1e9
_FORMS: Final = {
    "trigger_id": (
        "--trigger-id",
        "give letters, digits, '.', '_' and '-', at most 128, and a letter or digit first",
    ),
    "target_directory": ("--target", "give the URL of a folder, of at most 2048 characters"),
}
"""By field of a request for a savepoint: its option, and the form of its value."""


class SavepointFailed(errors.SparkstateError):
    """The job answered that the savepoint failed, and why."""


def _require_seconds(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not 0 <= value <= _MOST_SECONDS:  # NaN is not either
        raise click.BadParameter(f"{value:g} is not a number of seconds from 0 to {_MOST_SECONDS:g}")
    return value


@click.command()
@targets.running_options
@click.option(
    "--open",
    "link",
    is_flag=True,
    help="Print the link to the job's page, with the key to look and no other.",
)
@output.format_option("json", "yaml")
def status(link: bool, form: str, **target: Any) -> None:
    """Show what a running job does: epoch, rate, lag, state, checkpoints, slots, recoveries.

    \b
    Examples:
      sparkstate status job.yaml
      sparkstate status job.yaml --open
      SPARKSTATE_TOKEN=… sparkstate status --address http://10.0.0.7:8080 -o json
    """
    with targets.RunningJob(**target).connect() as job:
        if link:
            click.echo(job.page_url)
            return
        answer = job.status()
    if form != "table":
        output.emit(_plain(answer), form)
        return
    _show_status(answer)


def _show_status(job: documents.JobStatus) -> None:
    now_ms = clocks.SystemClock().now_ms()
    ended = job.watermark_ms == documents.END_OF_INPUT_WATERMARK
    failure = f"{job.last_failure.reason}: {job.last_failure.message}" if job.last_failure else None
    output.pairs(
        [
            ("job", f"{job.namespace}/{job.name}"),
            ("phase", job.phase.value),
            *(("storage", progress.outage(each, now_ms)) for each in job.storage_away),
            *(("under way", progress.work(each)) for each in job.progress),
            ("attempt", f"{job.attempt}, incarnation {job.incarnation}, lineage {job.lineage}"),
            ("backend", job.backend),
            ("epoch", job.epoch),
            ("rows", f"{job.rows_total} ({progress.rate(job.rows_per_s)})"),
            ("watermark", "the input has ended" if ended else output.moment(job.watermark_ms)),
            ("lag", progress.duration(job.lag_ms) if job.lag_ms is not None and not ended else None),
            ("state", progress.size(job.state_bytes)),
            ("checkpoint", _last(job.last_checkpoint, now_ms)),
            ("savepoint", _last(job.last_savepoint, now_ms)),
            ("completed", f"{job.checkpoints_completed} checkpoints, {job.checkpoints_failed} failed"),
            ("restored", job.restored_from),
            ("restarts", job.restarts),
            ("failure", failure),
        ]
    )
    if job.slots:
        click.echo()
        output.table(
            ("SLOT", "PID", "SHARDS", "STATE", "ROWS", "RESIDENT"), [_slot(slot) for slot in job.slots]
        )
    if found := [(slot.index, one) for slot in job.slots for one in slot.operator_states]:
        click.echo()
        output.table(
            ("SLOT", "OPERATOR", "OPERATOR STATE", "KIND", "ELEMENTS", "MEMORY"),
            [
                (slot, one.operator, one.state, one.kind, one.elements, progress.size(one.size_bytes))
                for slot, one in found
            ],
        )
    if job.user_metrics:
        click.echo()
        output.table(
            ("OPERATOR", "METRIC", "KIND", "VALUE"),
            [(one.operator, one.name, one.kind, _metric(one)) for one in job.user_metrics],
        )
    for notice in job.notices:
        click.echo(f"\nnote: {notice}")


def _metric(one: documents.UserMetric) -> str | None:
    """Its value, as the page shows it; None where there is none yet."""
    if one.kind in ("gauge", "distribution"):
        if one.least is None or one.largest is None:
            return None
        least, largest = _number(one.least), _number(one.largest)
        among = least if least == largest else f"{least} to {largest}"
        return among if one.kind == "gauge" else f"{_number(one.count or 0)} values of {among}"
    if one.count is None:
        return None
    count = _number(one.count)
    return f"{count}, {_number(one.rate or 0)} per second" if one.kind == "meter" else count


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def _slot(slot: documents.SlotStatus) -> tuple[object, ...]:
    resident = progress.size(slot.rss_bytes) if slot.rss_bytes is not None else None
    pid = slot.pid if slot.alive else f"{slot.pid} (gone)"
    return slot.index, pid, len(slot.shards), progress.size(slot.state_bytes), slot.rows, resident


def _last(info: documents.CheckpointInfo | None, now_ms: int) -> str | None:
    if info is None:
        return None
    ended_ms = info.trigger_ms + (info.duration_ms or 0)
    return f"{info.id}, epoch {info.epoch}, {progress.duration(max(0, now_ms - ended_ms))} ago, {info.path}"


@click.command()
@targets.running_options
@output.format_option("json", "yaml")
def checkpoints(form: str, **target: Any) -> None:
    """List the checkpoints and savepoints of a running job, oldest first.

    \b
    Examples:
      sparkstate checkpoints job.yaml
      sparkstate checkpoints job.yaml -o json
    """
    with targets.RunningJob(**target).connect() as job:
        history = job.checkpoints()
    if form != "table":
        output.emit([_plain(info) for info in history], form)
        return
    header = ("ID", "KIND", "STATUS", "EPOCH", "STARTED", "TOOK", "PAUSE", "STATE", "UPLOADED", "PATH")
    output.table(header, [_checkpoint_row(info) for info in history])


def _checkpoint_row(info: documents.CheckpointInfo) -> tuple[object, ...]:
    return (
        info.id,
        info.kind.value,
        info.status.value,
        info.epoch,
        output.moment(info.trigger_ms),
        None if info.duration_ms is None else progress.duration(info.duration_ms),
        None if info.sync_pause_ms is None else f"{info.sync_pause_ms} ms",
        None if info.state_bytes is None else progress.size(info.state_bytes),
        None if info.uploaded_bytes is None else progress.size(info.uploaded_bytes),
        info.failure or info.path,
    )


@click.command()
@targets.running_options
@click.option("--stop", is_flag=True, help="Stop the job with it: no epoch commits after the savepoint.")
@click.option("--drain", is_flag=True, help="With --stop: fire all event-time timers first (watermark +∞).")
@click.option("--target", "directory", metavar="URL", help="Folder for savepoints.  [default: the job's own]")
@click.option(
    "--type",
    "format_type",
    type=click.Choice(get_args(SavepointFormat)),
    default="canonical",
    show_default=True,
    help="canonical: any state backend restores it. native: the state backend's own files, faster.",
)
@click.option(
    "--trigger-id", metavar="ID", help="Id of the request: asking again with it starts nothing new."
)
@click.option(
    "--no-wait", is_flag=True, help="Return once the request is accepted, without waiting for the savepoint."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    callback=_require_seconds,
    default=600.0,
    show_default=True,
    help="How long to wait.",
)
@output.format_option("json", "yaml")
def savepoint(
    *,
    stop: bool,
    drain: bool,
    directory: str | None,
    format_type: SavepointFormat,
    trigger_id: str | None,
    no_wait: bool,
    timeout: float,
    form: str,
    **target: Any,
) -> None:
    """Take a savepoint of a running job and print its URL.

    \b
    Examples:
      sparkstate savepoint job.yaml
      sparkstate savepoint job.yaml --stop
      sparkstate savepoint job.yaml --trigger-id before-upgrade --target s3://bucket/keep
      sparkstate savepoint job.yaml --type native
    """
    if drain and not stop:
        raise click.UsageError("--drain fires all timers, so the job cannot go on: give --stop too")
    try:
        request = documents.SavepointRequest(
            trigger_id=trigger_id,
            target_directory=directory,
            stop=stop,
            drain=drain,
            format_type=format_type,
        )
    except ValidationError as error:
        raise _wrong_option(error) from None
    with targets.RunningJob(**target).connect() as job:
        answer = job.trigger_savepoint(request)
        if not no_wait:
            answer = _end_of(job, answer.trigger_id, timeout)
    if form != "table":
        output.emit(_plain(answer), form)
    elif answer.location:
        click.echo(answer.location)
    else:
        click.echo(f"savepoint {answer.trigger_id} is {answer.status.value.lower()}")
    if answer.status is documents.SavepointPhase.FAILED:
        raise SavepointFailed(f"savepoint {answer.trigger_id} failed: {answer.failure}")


def _wrong_option(error: ValidationError) -> click.UsageError:
    """The first option whose value is not of its form."""
    wrong = error.errors()[0]
    option, remedy = _FORMS[str(wrong["loc"][0])]
    return click.UsageError(f"{option} {wrong['input']!r}: {remedy}")


def _end_of(job: client.ControlClient, trigger_id: str, timeout_s: float) -> documents.SavepointStatus:
    """The savepoint, completed or failed. Meanwhile a terminal shows how far it is."""
    line = progress.TransferLine(sys.stderr, clocks.SystemClock(), "savepoint", _LOOK_S)

    def look() -> None:
        if not line.takes_turn():
            return
        # What is wrong with the driver is said by the next question about the savepoint itself.
        with contextlib.suppress(errors.SparkstateError):
            for each in job.status().progress:
                if (each.kind, each.name) == (documents.LongWorkKind.SAVEPOINT, trigger_id):
                    line.show(each)

    try:
        return job.wait_for_savepoint(trigger_id, timeout_s, look)
    finally:
        line.clear()


@click.command()
@targets.running_options
def cancel(**target: Any) -> None:
    """Stop a running job after its epoch, without a savepoint; its last checkpoint is kept.

    \b
    Example:
      sparkstate cancel job.yaml
    """
    with targets.RunningJob(**target).connect() as job:
        job.cancel()
    click.echo("the job stops after the epoch that runs")


@click.group()
def state() -> None:
    """Read the state of a running job."""


@state.command()
@targets.running_options
@click.option("--operator", required=True, metavar="UID", help="The operator's uid.")
@click.option("--state", "name", required=True, metavar="NAME", help="The name in its descriptor.")
@click.option(
    "--key", metavar="JSON", help="The key; a JSON list for several key columns. As the command shows values."
)
@click.option(
    "--slot", type=click.IntRange(0), metavar="N", help="Instead of a key: operator state of this slot."
)
@click.option(
    "--namespace",
    metavar="JSON",
    default="null",
    help="The namespace, for states that have one; of a window '[start, end]' in ms.",
)
@output.format_option("json", "yaml", default="value")
def get(
    operator: str, name: str, key: str | None, slot: int | None, namespace: str, form: str, **target: Any
) -> None:
    """Show the committed value of one state under one key, or of one operator state in one slot.

    \b
    Examples:
      sparkstate state get job.yaml --operator rotation --state delay --key '"N14228"'
      sparkstate state get job.yaml --operator visits --state count --key '["de", 7]' -o json
      sparkstate state get job.yaml --operator days --state count --key '"2026-01-31"'
      sparkstate state get job.yaml --operator sums --state _window/contents --key 7 --namespace '[0, 300000]'
      sparkstate state get job.yaml --operator judged --state rules --slot 0
    """
    if (key is None) == (slot is None):
        raise click.UsageError("give either --key, for state by key, or --slot, for operator state")
    with targets.RunningJob(**target).connect() as job:
        if slot is not None:
            answer = job.operator_state(operator, name, slot)
        else:
            answer = job.key_state(operator, name, _json("--key", key or ""), _json("--namespace", namespace))
    if form == "value":
        click.echo(json.dumps(answer.value, ensure_ascii=False))
    else:
        output.emit(_plain(answer), form)


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise click.UsageError(
            f"{option} {text} is not JSON; a string needs quotes within quotes: {option} '{json.dumps(text)}'"
        ) from None


def _plain(document: BaseModel) -> Any:
    return document.model_dump(mode="json")
