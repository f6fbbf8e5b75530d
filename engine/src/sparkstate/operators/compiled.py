"""Whether the record path of the distribution ``sparkstate-compiled`` is used; nothing else imports that package.

It is optional: without it the engine runs the same path in Python, with the same results.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from typing import Any, Final

VARIABLE: Final = "SPARKSTATE_COMPILED"
"""``0`` turns the compiled path off in a process that has it."""
INTERFACE: Final = 2
"""The form of the calls that this engine makes. An extension with another number is left alone."""
IN_USE: Final = "in use"
NOT_INSTALLED: Final = "not installed"
OTHER_VERSION: Final = "built for another version"
TURNED_OFF: Final = f"turned off by {VARIABLE}=0"
_log = logging.getLogger("sparkstate.operators")


def status() -> str:
    """``in use``, or the reason why the path runs in Python."""
    return TURNED_OFF if _is_off() else _load()[0]


def records() -> Any:
    """The extension module; None: operators that are made now run in Python. An extension that is installed and of no
    use is warned of once."""
    return None if _is_off() else _load()[1]


def _is_off() -> bool:
    return os.environ.get(VARIABLE) == "0"


@functools.cache
def _load() -> tuple[str, Any]:
    try:
        import sparkstate_compiled
    except ModuleNotFoundError:
        return NOT_INSTALLED, None
    if sparkstate_compiled.INTERFACE != INTERFACE:
        return _left_alone(OTHER_VERSION), None
    try:
        return IN_USE, importlib.import_module("sparkstate_compiled.records")
    except ImportError as error:
        return _left_alone(f"cannot be loaded: {error}"), None


def _left_alone(reason: str) -> str:
    _log.warning(
        "the compiled record path is %s; records take the path in Python, with the same results. "
        "`sparkstate doctor` has the remedy",
        reason,
    )
    return reason
