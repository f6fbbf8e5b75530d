"""The values of options: what each of them may be, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml

from sparkstate_operator import errors, kept_name, managing
from sparkstate_operator.config import DriverRole
from sparkstate_operator.core import settings

CLUSTERS_CHOICE = "none"
"""The option is left to the cluster, which gives each namespace users of its own."""
IDS = {"runAsUser": "job_user", "runAsGroup": "job_group", "fsGroup": "job_fs_group"}


def operator_class(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """A value of the label by which jobs choose their operator."""
    if not managing.CLASS.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is not a class; use at most 63 characters of a to z, 0 to 9 and -, and neither begin nor end "
            "with -"
        )
    return value


def cluster(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """A cluster's name in storage; empty if none is given."""
    if value and not kept_name.NAME.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} cannot be a name in storage; use at most 253 characters, none of them /, $ or a control "
            "character, and neither . nor .."
        )
    return value


def identifier(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """A user or a group of jobs' pods, or none."""
    if value != CLUSTERS_CHOICE and not (value.isascii() and value.isdecimal() and 0 < int(value) < 2**31):
        raise click.BadParameter(
            f"{value!r} is not a user or group; give a number above 0, or {CLUSTERS_CHOICE}"
        )
    return value


def key(path: Path | None) -> bytes | None:
    """The key in a file, if one was given."""
    from sparkstate_operator import keys  # loads the Kubernetes client

    try:
        return None if path is None else keys.require(path.read_bytes(), f"--key-file {path}")
    except errors.BadKey as error:
        raise click.UsageError(str(error)) from error


def address(listen: str) -> tuple[str, int]:
    """Host and port to listen on."""
    host, colon, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isdecimal() or (":" in bare and bare == host):
        raise click.UsageError(
            f"--listen is {listen!r}; it must be host:port, [IPv6 address]:port, or :port for every address"
        )
    return bare, int(port)


def driver_role(text: str) -> DriverRole:
    """The role of drivers with executors."""
    try:
        return DriverRole.of(text)
    except ValueError as error:
        raise click.UsageError(f"--driver-role is {error}") from error


def defaults(path: Path | None) -> dict[str, Any]:
    """The chart's defaults, judged by themselves."""
    found: dict[str, Any] = (yaml.safe_load(path.read_text()) if path is not None else None) or {}
    settings.check_defaults(found)
    return found
