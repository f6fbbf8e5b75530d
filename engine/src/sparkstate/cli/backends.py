"""``sparkstate check-backend``: whether a state backend of one's own would be accepted."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import click

from sparkstate import clock, errors, manifest
from sparkstate.cli import manifests, output
from sparkstate.conformance import trial
from sparkstate.settings import EntryPoint, StateBackendSettings


@click.command("check-backend")
@click.argument("class_name", metavar="[MODULE:CLASS]", required=False)
@click.option(
    "--manifest",
    "manifest_path",
    metavar="JOB.YAML",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take class, options and Python path from a job's manifest.",
)
@manifests.set_option
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="As in stateBackend.options. May be repeated.",
)
@output.format_option("json")
def check_backend(
    class_name: str | None,
    manifest_path: Path | None,
    overrides: tuple[str, ...],
    options: tuple[str, ...],
    form: str,
) -> None:
    """Run the conformance kit on a state backend of your own, as a job does at its start.

    The module is looked for in the working folder, beside the manifest's pythonFile, and among what is installed. The
    exit code is 0 if the backend passes, 2 if a job would refuse it, and 1 if it cannot be judged now.

    \b
    Examples:
      sparkstate check-backend my_backend:MyBackend --option cache_kib=512
      sparkstate check-backend --manifest job.yaml
    """
    backend, folders = _of_manifest(manifest_path, overrides)
    if class_name:
        backend = replace(backend, type="custom", class_name=class_name)
    if backend.class_name is None:
        raise click.UsageError("name the class, or a manifest with stateBackend.class")
    backend = replace(backend, options={**backend.options, **dict(map(_pair, options))})
    with tempfile.TemporaryDirectory(prefix="sparkstate-") as directory:
        passed = trial.run(backend, (*folders, str(Path.cwd())), Path(directory), clock.SystemClock())
    _show(backend.class_name or "", passed, form)


def _of_manifest(
    path: Path | None, overrides: tuple[str, ...]
) -> tuple[StateBackendSettings, tuple[str, ...]]:
    if path is None:
        return StateBackendSettings(type="custom"), ()
    job = manifest.resolve(manifest.load(path, overrides), place_by_code=True).settings
    options = job.backend.options if job.backend.type == "custom" else {}
    return replace(job.backend, type="custom", options=options), _folders(job.entry)


def _folders(entry: EntryPoint) -> tuple[str, ...]:
    return () if entry.python_file is None else (str(Path(entry.python_file).resolve().parent),)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise errors.SpecInvalid(f"--option {text}: write KEY=VALUE")
    return key, value


def _show(class_name: str, passed: trial.Passed, form: str) -> None:
    if form == "json":
        document = {
            "class": class_name,
            "chapters": dict(passed.chapters),
            "seconds": round(passed.seconds, 1),
        }
        output.emit(document, form)
        return
    output.table(("CHAPTER", "CHECKS PASSED"), list(passed.chapters.items()))
    click.echo(f"{class_name} passes the conformance kit: {passed.checks} checks in {passed.seconds:.1f} s")
