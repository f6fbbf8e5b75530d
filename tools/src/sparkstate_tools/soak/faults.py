"""The faults of the soak and their times: a pure function of the seed.

The epochs come in blocks of 5,000. In the first fifth of a block processes are killed every 60 epochs or so; in the
rest only storage fails, so that processes live long enough to fill their caches and then to show what they leak.
"""

from __future__ import annotations

import enum
import random

BLOCK = 5000
BUSY = 1000
"""Epochs of a block in which processes are killed."""


class Fault(enum.StrEnum):
    """The kinds of faults."""

    KILL_SLOT = "a slot is killed"
    KILL_DRIVER = "the driver is killed"
    REFUSE = "the storage refuses every write for some seconds"
    STOP_STORAGE = "the storage is away for some seconds"


_BUSY_KINDS = (Fault.KILL_SLOT, Fault.KILL_SLOT, Fault.KILL_DRIVER, Fault.REFUSE)
_QUIET_KINDS = (Fault.REFUSE, Fault.REFUSE, Fault.STOP_STORAGE)


def schedule(seed: int, epochs: int) -> list[tuple[int, Fault]]:
    """(epoch, fault) in order, for that many epochs."""
    rng = random.Random(f"soak {seed}")
    planned = []
    epoch = 30
    while epoch < epochs:
        busy = epoch % BLOCK < BUSY
        planned.append((epoch, rng.choice(_BUSY_KINDS if busy else _QUIET_KINDS)))
        epoch += rng.randrange(40, 80) if busy else rng.randrange(200, 400)
    return planned
