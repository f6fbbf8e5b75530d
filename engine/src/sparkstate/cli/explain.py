"""``sparkstate explain``: every effective setting, where it comes from, the memory sum, and what a load needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sparkstate import errors, manifest, sizing
from sparkstate.backends.rocksdb import explained
from sparkstate.cli import manifests, output
from sparkstate.settings import JobSettings
from sparkstate.sizing import text
from sparkstate_spec import configuration, key_space
from sparkstate_spec.answers import Answer

_NO_PLACE = (
    "spec.checkpointing.storage is missing, so the job's code has to name it (set_checkpoint_storage), which counts "
    "with sparkstate run; on Kubernetes the manifest names it"
)
_NO_CODE = (
    "the job's code is not run here: settings in it (set_state_backend, StreamExecutionEnvironment) count more than "
    "all above, and the driver's log names them when the job runs"
)
_OF_STATE = (
    "A start without state is refused. State that the job goes on from keeps the number of key groups that it was "
    "created with"
)
_OF_KEYS = tuple(f"spec.{name}: " for name in configuration.NAMES)


@click.command()
@manifests.manifest_argument
@manifests.set_option
@click.option(
    "--size",
    "size_text",
    metavar="ROWS/S,KEYS,BYTES",
    help="Estimate instead what the job needs for so many rows a second, different keys, and encoded bytes of each "
    "key's values, e.g. 50k,10M,200.",
)
@click.option(
    "--function",
    type=click.Choice(sizing.FUNCTIONS),
    help="With --size: the kind of the job's functions. A call per record; the same with sparkstate-compiled; per "
    "Arrow batch; per Arrow batch, with one answer for each key.  [default: record]",
)
@click.option(
    "--values",
    type=click.Choice(sizing.VALUES),
    help="With --size: what the values are. numbers: every state is a value state with whole-number keys and numbers "
    "or booleans as values, which HashMap keeps in columns.  [default: any]",
)
@output.format_option("json", "yaml")
def explain(
    manifest_path: Path,
    overrides: tuple[str, ...],
    size_text: str | None,
    function: sizing.Function | None,
    values: sizing.Values | None,
    form: str,
) -> None:
    """Show every effective setting of a job with its origin, and how much memory the job needs.

    With --size, show how many processors and slots, how much memory, disk and network, and how many requests to its
    storage the job needs for such a load, and how long a recovery takes. docs/sizing.md says how far that may be off.

    Each of Flink's keys in spec.configuration (or spec.flinkConfiguration) is answered: the field that it sets, or why
    it sets none.

    Starts nothing and reads no storage.

    \b
    Examples:
      sparkstate explain job.yaml
      sparkstate explain job.yaml --set spec.slots=4 -o json
      sparkstate explain job.yaml --set spec.configuration=@flink-conf.yaml
      sparkstate explain job.yaml --size 50k,10M,200
    """
    if function is not None and size_text is None:
        raise click.UsageError("--function says for which kind of function --size estimates; give --size too")
    if values is not None and size_text is None:
        raise click.UsageError("--values says for which values --size estimates; give --size too")
    size = None if size_text is None else sizing.parse(size_text)
    answers = manifest.flink_answers(manifest_path, overrides)
    try:
        resolved = manifest.resolve(manifest.load(manifest_path, overrides), place_by_code=True)
    except errors.SpecInvalid:
        if form == "table" and size is None:
            _show_answers(answers)  # all of them, not only those that refuse the job
        raise
    if size is not None:
        needed = sizing.estimate(size, resolved.settings, function or "record", sizing.KNOWN, values or "any")
        _show_estimate(needed, resolved.settings, form)
        return
    memory = manifest.memory_sum(resolved.settings)
    if form != "table":
        output.emit(_document(resolved, memory, answers), form)
        return
    output.table(("SETTING", "VALUE", "ORIGIN"), manifest.explain_rows(resolved))
    click.echo(f"\nmemory\n{memory}")
    click.echo(
        f"for the state backend {resolved.settings.backend.type}; one that the job's code sets (set_state_backend) "
        "is known only when it runs"
    )
    if (native := _native_options(resolved.settings)) is not None:
        click.echo("\nRocksDB, by the keys of spec.stateBackend.options")
        output.table(("KEY", "VALUE", "ORIGIN"), native)
        if resolved.settings.backend.options_factory:
            click.echo(
                f"{resolved.settings.backend.options_factory} may change any of these when a slot runs it"
            )
    _show_answers(answers)
    click.echo(f"\nnote: {_NO_CODE}")
    if not resolved.settings.checkpoint.storage:
        click.echo(f"note: {_NO_PLACE}")
    for notice in _notices(resolved):
        if not notice.startswith(_OF_KEYS):  # the table has them
            click.echo(f"\nnote: {notice}")


def _notices(resolved: manifest.Resolved) -> list[str]:
    """Those of the manifest, and one of shards that only a job with state can have, which a start knows."""
    job = resolved.settings
    beyond = key_space.beyond_default(job.slots, job.max_parallelism, job.shards)
    return [*resolved.notices, *([f"{beyond}. {_OF_STATE}"] if beyond else [])]


def _show_answers(answers: Sequence[Answer]) -> None:
    if not answers:
        return
    click.echo(f"\nFlink's keys (spec.{answers[0].spelling})")
    rows = [(each.key, each.value, f"{each.outcome}: {each.text}") for each in answers]
    output.table(("KEY", "VALUE", "WHAT BECAME OF IT"), rows)


def _native_options(settings: JobSettings) -> list[tuple[str, str, str]] | None:
    """The effective options of RocksDB; None for the other backend."""
    return explained.rows(settings.backend) if settings.backend.type == "rocksdb" else None


def _show_estimate(needed: sizing.Estimate, settings: JobSettings, form: str) -> None:
    if form != "table":
        output.emit(text.document(needed, settings), form)
        return
    click.echo(text.title(needed, settings))
    output.table(text.HEADER, text.rows(needed, settings))
    for remedy in text.remedies(needed, settings):
        click.echo(f"\n{remedy}")
    click.echo(f"\n{text.FOOT}")


def _document(
    resolved: manifest.Resolved, memory: manifest.MemorySum, answers: Sequence[Answer]
) -> dict[str, Any]:
    rows = manifest.explain_rows(resolved)
    return {
        "name": resolved.settings.name,
        "namespace": resolved.settings.namespace,
        "settings": {path: {"value": value, "origin": origin} for path, value, origin in rows},
        "memory": {
            "totalBytes": memory.total,
            "backend": resolved.settings.backend.type,
            "parts": [
                {
                    "name": part.name,
                    "count": part.count,
                    "totalBytes": part.total,
                    "items": [
                        {"name": item.name, "count": item.count, "eachBytes": item.each}
                        for item in part.items
                    ],
                }
                for part in memory.parts
            ],
        },
        **(
            {"rocksdb": _by_key(native)} if (native := _native_options(resolved.settings)) is not None else {}
        ),
        **({answers[0].spelling: _answered(answers)} if answers else {}),
        "code": _NO_CODE,
        "notices": _notices(resolved),
    }


def _answered(answers: Sequence[Answer]) -> dict[str, Any]:
    return {
        each.key: {
            **({"value": each.value} if each.value else {}),
            "outcome": each.outcome,
            "text": each.text,
        }
        for each in answers
    }


def _by_key(rows: list[tuple[str, str, str]]) -> dict[str, Any]:
    return {key: {"value": value, "origin": origin} for key, value, origin in rows}
