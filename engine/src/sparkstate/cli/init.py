"""``sparkstate init``: writes a job, its manifest and a program that makes input for it."""

from __future__ import annotations

import json
import re
import shlex
from importlib import resources
from pathlib import Path

import click

from sparkstate import errors
from sparkstate_spec.rules import job as job_rules
from sparkstate_spec.rules.job import NAME_LIMIT
from sparkstate_spec.rules.rule import View

FILES = ("job.py", "job.yaml", "make_input.py")


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--name", help="The job's name.  [default: the folder's]")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def init(folder: Path, name: str | None, force: bool) -> None:
    """Write a runnable job: job.py, job.yaml and make_input.py.

    \b
    Example:
      sparkstate init shop
      python shop/make_input.py 30
      sparkstate run shop/job.yaml
    """
    existing = [file for file in FILES if (folder / file).exists()]
    if existing and not force:
        raise errors.SpecInvalid(
            f"{folder} has {', '.join(existing)} already; choose another folder, or say --force"
        )
    job = name or _name_of(folder.resolve())
    if job_rules.NAME.broken(View({"metadata": {"name": job}})):
        raise errors.SpecInvalid(f"--name {job!r}: {job_rules.NAME.message}")
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        text = resources.files("sparkstate.cli").joinpath("templates", f"{file}.txt").read_text()
        (folder / file).write_text(_filled(text, job, folder.resolve()))
        click.echo(f"wrote {folder / file}")
    click.echo(
        f"\nMake some input:   python {_quoted(folder / 'make_input.py')} 30"
        f"\nRun the job:       sparkstate run {_quoted(folder / 'job.yaml')}"
        f"\nWatch it:          sparkstate status {_quoted(folder / 'job.yaml')}"
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _filled(text: str, name: str, folder: Path) -> str:
    """The template with the job's name and places; JSON's quoting is YAML's too, whatever a path holds."""
    for place in ("input", "output"):
        text = text.replace(f"@{place.upper()}@", json.dumps(str(folder / place), ensure_ascii=False))
    return text.replace("@NAME@", name)


def _name_of(folder: Path) -> str:
    """The folder's name as Kubernetes takes names: lower-case letters, digits and hyphens."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"job-{name}"
    # No longer than a manifest may name a job: Spark and the operator add to it, up to Kubernetes' 63 characters.
    return name[:NAME_LIMIT].strip("-")
