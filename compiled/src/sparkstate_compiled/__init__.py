"""The record path of sparkstate, compiled: what the engine does for each record of a function on records, in C.

The engine uses it where it is installed, and does the same in Python where it is not. It has no other users: every
name in here may change with ``INTERFACE``.
"""

from __future__ import annotations

from typing import Final

INTERFACE: Final = 2
"""The engine uses the module only if this is the number that it was written for."""
