"""``sparkstate doctor``: whether this machine has what a job needs."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from sparkstate import manifest
from sparkstate.cli import manifests, output
from sparkstate.doctor import examination
from sparkstate.doctor.check import Check
from sparkstate.runner import workdir


@click.command()
@click.argument(
    "manifest_path",
    metavar="[JOB.YAML]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@manifests.set_option
@manifests.work_dir_option
@output.format_option("json")
def doctor(manifest_path: Path | None, overrides: tuple[str, ...], work_dir: Path | None, form: str) -> None:
    """Check Python, Java, packages, disk and memory; say what installs what is missing.

    With a manifest, what that job needs is checked too: its backend, its storage, its memory. A storage is tried by
    writing and deleting an object, as the driver does. The exit code is 1 if something is missing that is needed.

    \b
    Examples:
      sparkstate doctor
      sparkstate doctor job.yaml
      sparkstate doctor -o json
    """
    demand = None
    folder = work_dir or Path()
    if manifest_path is not None:
        job = manifest.resolve(manifest.load(manifest_path, overrides), place_by_code=True).settings
        demand = examination.Demand.of(job, manifest.memory_sum(job).total)
        folder = work_dir or workdir.default_root(manifest_path, job.name)
    checks = examination.examine(os.environ, folder.resolve(), demand)
    _show(checks, form)
    if any(check.required and not check.ok for check in checks):
        raise click.exceptions.Exit(1)


def _show(checks: list[Check], form: str) -> None:
    if form == "json":
        output.emit([asdict(check) for check in checks], form)
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        word = "OK" if check.ok else "MISSING" if check.required else "optional"
        click.echo(f"{word:<8}  {check.name:<{width}}  {check.detail}")
        if not check.ok:
            click.echo(f"{'':<8}  {'':<{width}}  → {check.remedy}")
