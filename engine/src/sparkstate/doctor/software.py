"""Python, Java and packages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from typing import Final

from sparkstate import java
from sparkstate.doctor.check import Check
from sparkstate.operators import compiled

MINIMUM_PYTHON: Final = (3, 11)


def check_python(version: tuple[int, ...]) -> Check:
    """Python 3.11 or newer."""
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    return Check(
        "python",
        version[:2] >= MINIMUM_PYTHON,
        ".".join(map(str, version)),
        f"install Python {wanted} or newer, e.g. `uv python install {wanted}`",
    )


def check_java(environ: Mapping[str, str]) -> Check:
    """A Java that starts Spark: which one, and its version."""
    try:
        found = java.find(environ)
    except java.JavaNotFound as exc:
        return Check("java", False, str(exc), java.REMEDY)
    except OSError as exc:
        return Check(
            "java",
            False,
            f"the shim cannot be written: {exc}",
            "set XDG_CACHE_HOME to a folder you can write",
        )
    shim = f", through the shim {found.home / 'bin' / 'java'}" if found.shim else ""
    return Check("java", True, f"{found.version} at {found.executable} (from {found.origin}{shim})")


def check_distribution(name: str, install: str, *, wanted: str = "", required: bool = True) -> Check:
    """An installed package, by its metadata: nothing is imported. ``wanted`` begins the version."""
    remedy = f"`{install}`"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, "not installed", remedy, required)
    if not version.startswith(wanted):
        return Check(name, False, f"version {version}, {wanted}x is needed", remedy, required)
    if importlib.util.find_spec(name) is None:
        return Check(
            name, False, f"version {version} is registered, but cannot be imported", remedy, required
        )
    return Check(name, True, version, required=required)


def check_compiled(status: str) -> Check:
    """Whether records take the compiled path: ``status`` is what :func:`sparkstate.operators.compiled.status` says.

    A path that was turned off is in order: somebody wanted it so.
    """
    name = "compiled record path"
    if status in (compiled.IN_USE, compiled.TURNED_OFF):
        return Check(name, True, status, required=False)
    version = importlib.metadata.version("sparkstate")
    remedies = {
        compiled.NOT_INSTALLED: "`pip install 'sparkstate[compiled]'`; without it the engine does the same in Python",
        compiled.OTHER_VERSION: f"`pip install sparkstate-compiled=={version}`",
    }
    remedy = remedies.get(status, f"`pip install --force-reinstall sparkstate-compiled=={version}`")
    return Check(name, False, status, remedy, required=False)
