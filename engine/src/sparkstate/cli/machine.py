"""Answers for programs: one JSON line to standard output, and a short one as a pod's termination message.

The operator runs ``restore-info``, ``savepoints delete`` and ``purge`` as Kubernetes Jobs and reads nothing but the
termination message (docs/formats.md, "In the cluster").
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from sparkstate import errors
from sparkstate.driver import termination

Command = TypeVar("Command", bound=Callable[..., Any])
IN_A_CONTAINER = Path("/dev/termination-log")
_LARGE = ("operators", "checkpoints", "savepoints", "unfinished_savepoints")


def options(command: Command) -> Command:
    """``--json --manifest --termination-log``, and :func:`answering`."""
    kind = click.Path(dir_okay=False, path_type=Path)
    decorated = click.option(
        "--termination-log",
        type=kind,
        help="Also write the answer to this file, in short.  [default: /dev/termination-log if there is one]",
    )(answering(command))
    decorated = click.option(
        "--manifest", "manifest_path", metavar="JOB.YAML", help="The job's manifest, instead of a target."
    )(decorated)
    return click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")(decorated)


def target(given: str | None, manifest_path: str | None) -> str:
    """The target of a command: its argument, or ``--manifest``."""
    if manifest_path is not None and not Path(manifest_path).is_file():
        raise errors.SpecInvalid(f"--manifest {manifest_path}: there is no such file")
    chosen = given or manifest_path
    if chosen is None or (given and manifest_path):
        raise click.UsageError("name either the job's manifest or its storage")
    return chosen


def answering(command: Command) -> Command:
    """With ``--json``, every error of the command is an answer too (``ok: false``), and is raised on: also one of its
    arguments, without which a program would find no answer and ask again."""

    @functools.wraps(command)
    def told(*arguments: Any, as_json: bool, termination_log: Path | None, **named: Any) -> Any:
        try:
            return command(*arguments, as_json=as_json, termination_log=termination_log, **named)
        except Exception as error:
            if as_json and not isinstance(error, (click.Abort, click.exceptions.Exit)):
                reason, message = _described(error)
                _say({"ok": False, "reason": reason, "message": message}, termination_log, dict)
            raise

    return cast("Command", told)


def _described(error: Exception) -> tuple[str, str]:
    if isinstance(error, errors.SparkstateError):
        return error.reason, str(error)
    if isinstance(error, click.ClickException):
        return errors.SpecInvalid.__name__, error.format_message()
    return errors.SparkstateError.__name__, f"unexpected {type(error).__name__}: {error}"


def answer(
    work: Callable[[], Mapping[str, Any]],
    termination_log: Path | None,
    shortened: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> None:
    """Do ``work`` and print what it returns with ``ok: true``. Its errors are left to :func:`answering`."""
    _say({"ok": True, **work()}, termination_log, shortened)


def brief(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without the lists that may be long, whose lengths it gives: a termination message has 4096 bytes."""
    point = document.get("restore_point")
    short = {name: value for name, value in document.items() if name not in _LARGE}
    if isinstance(point, Mapping):
        short["restore_point"] = {name: value for name, value in point.items() if name not in _LARGE}
    return {**short, "counts": {name: len(document[name]) for name in _LARGE if name in document}}


def _say(
    document: Mapping[str, Any],
    termination_log: Path | None,
    shortened: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    click.echo(json.dumps(document))
    place = termination_log or (IN_A_CONTAINER if os.access(IN_A_CONTAINER, os.W_OK) else None)
    try:
        termination.write(place, shortened(document))
    except OSError as error:  # the command's own outcome stays, and a program reads one answer
        click.echo(
            f"warning: the termination log could not be written ({error}); name another file", err=True
        )
