"""How a signal is called."""

from __future__ import annotations

import signal


def name_of(number: int) -> str:
    """``SIGKILL`` for 9; the number itself for signals without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
