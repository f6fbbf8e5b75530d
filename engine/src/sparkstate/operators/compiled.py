"""Whether the record path of the distribution ``sparkstate-compiled`` is used; nothing else imports that package.

It is optional: without it the engine runs the same path in Python, with the same results.
"""

from __future__ import annotations

import importlib
import os
from typing import Final

VARIABLE: Final = "SPARKSTATE_COMPILED"
"""``0`` turns the compiled path off in a process that has it."""
INTERFACE: Final = 1
"""The form of the calls that this engine makes. An extension with another number is left alone."""
IN_USE: Final = "in use"


def status() -> str:
    """``in use``, or the reason why the path runs in Python."""
    if os.environ.get(VARIABLE) == "0":
        return f"turned off by {VARIABLE}=0"
    try:
        import sparkstate_compiled
    except ModuleNotFoundError:
        return "not installed"
    if sparkstate_compiled.INTERFACE != INTERFACE:
        return "built for another version"
    try:
        importlib.import_module("sparkstate_compiled.records")
    except ImportError as exc:
        return f"cannot be loaded: {exc}"
    return IN_USE
