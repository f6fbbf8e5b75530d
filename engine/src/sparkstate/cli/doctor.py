"""``sparkstate doctor``: what this machine has of what a job needs."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from sparkstate.cli import output
from sparkstate.runner import health


@click.command()
@click.option("--work-dir", type=click.Path(path_type=Path), default=Path(), help="Where jobs will work.")
@output.format_option("json")
def doctor(work_dir: Path, form: str) -> None:
    """Check Python, Java, packages, disk and memory; say what installs what is missing.

    The exit code is 1 if something is missing that every job needs.

    \b
    Examples:
      sparkstate doctor
      sparkstate doctor -o json
    """
    checks = health.examine(os.environ, work_dir.resolve(), None)
    _show(checks, form)
    if any(check.required and not check.ok for check in checks):
        raise click.exceptions.Exit(1)


def _show(checks: list[health.Check], form: str) -> None:
    if form == "json":
        output.emit([asdict(check) for check in checks], form)
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        word = "OK" if check.ok else "MISSING" if check.required else "optional"
        click.echo(f"{word:<8}  {check.name:<{width}}  {check.detail}")
        if not check.ok:
            click.echo(f"{'':<8}  {'':<{width}}  → {check.remedy}")
