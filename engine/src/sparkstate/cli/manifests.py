"""The argument ``JOB.YAML`` and the options that go with it, for every command that takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def manifest_argument(command: Command) -> Command:
    """The path of the manifest, as ``manifest_path``."""
    kind = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.argument("manifest_path", metavar="JOB.YAML", type=kind)(command)


def set_option(command: Command) -> Command:
    """``--set path=value``, as the tuple ``overrides``."""
    return click.option(
        "--set",
        "overrides",
        metavar="PATH=VALUE",
        multiple=True,
        help="Set a field, e.g. --set spec.slots=3; null removes one. May be repeated.",
    )(command)


def work_dir_option(command: Command) -> Command:
    """``--work-dir``, None by default."""
    return click.option(
        "--work-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="The job's working folder.  [default: .sparkstate/<name> beside the manifest]",
    )(command)
