"""How much of everything a job needs for its load: ``sparkstate explain --size``.

``known`` has the measured constants, ``size`` reads the load, ``estimate`` is arithmetic over both, and ``text`` prints
the result. Nothing here reads a file, a clock or a storage.
"""

from sparkstate.sizing.constants import FUNCTIONS, VALUES, Constants, Function, Values
from sparkstate.sizing.estimate import Estimate, estimate
from sparkstate.sizing.known import KNOWN
from sparkstate.sizing.size import Size, parse

__all__ = [
    "FUNCTIONS",
    "KNOWN",
    "VALUES",
    "Constants",
    "Estimate",
    "Function",
    "Size",
    "Values",
    "estimate",
    "parse",
]
