"""The record path of sparkstate, compiled."""

from __future__ import annotations

from typing import Final

INTERFACE: Final = 1
"""The engine uses the module only if this is the number that it was written for."""
