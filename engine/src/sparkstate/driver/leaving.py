"""What a driver that was asked to end saves before it leaves.

A last checkpoint spares the next attempt the epochs since the newest one. Until it is complete nobody can go on, and
with much state it takes longer than those epochs did: then it is better to leave at once, as Flink's JobManager does.
"""

from __future__ import annotations

from typing import Final

LAST_TAKES: Final = 2.0
"""A last checkpoint takes so many times what others took: the next attempt's pod starts beside it (RFC 0012)."""
AT_ONCE_S: Final = 2.0
"""A checkpoint that takes no longer than this is always taken: no pod starts in less time."""


def is_worth_its_time(repeat_s: float, usual_s: float | None, under_way_s: float = 0.0) -> bool:
    """Whether to wait for a checkpoint instead of having the next attempt repeat what took ``repeat_s``.

    ``usual_s``: what the newest one took, None if none has completed; ``under_way_s``: since when this one is written.
    """
    if usual_s is None:
        return True
    wait_s = max(0.0, LAST_TAKES * usual_s - under_way_s)
    return wait_s <= AT_ONCE_S or repeat_s > wait_s
