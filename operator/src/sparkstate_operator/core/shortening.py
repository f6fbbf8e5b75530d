"""Messages that have to fit: into an Event, a condition, a status.

The beginning of a message says what happened, and its end what helps. Between them stand words of others, of any
length. Cut at its end, a message lost the one part that its reader can use.
"""

from __future__ import annotations

_GAP = " […] "


def shortened(message: str, longest: int) -> str:
    """The message in ``longest`` characters, without its middle if it has more."""
    if len(message) <= longest:
        return message
    kept = longest - len(_GAP)
    end = kept // 2
    return message[: kept - end] + _GAP + message[len(message) - end :]
