"""Keeps the watches going. The first answer that kopf takes for final (404 or 410, say) ends all of them; here they
begin anew, each with a list, so that no change is missed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sparkstate_operator import errors
from sparkstate_operator.watching.watches import Watches

_log = logging.getLogger(__name__)
RESTART_S = 3.0
LONGEST_RESTART_S = 30.0


async def keep(
    until_served: Callable[[], Awaitable[None]], live: Callable[[], Awaitable[None]], watches: Watches
) -> None:
    """Watch until cancelled. ``until_served`` returns once there is something to watch; ``live`` watches until a watch
    fails. Raises ``WatchesBlocked``, as ``live`` does."""
    failures = 0
    while True:
        await until_served()
        watches.begin()
        try:
            await live()
            why = "they have ended without an error"
        except errors.WatchesBlocked:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        failures = 1 if watches.were_live else failures + 1
        watches.ended()
        _log.warning("the watches failed and begin anew: %s", why)
        await asyncio.sleep(pause_s(failures))


def pause_s(failures: int) -> float:
    """Before the watches begin anew, after so many lives in a row in which they were never all live. Each life begins
    with lists of everything, which a refusal that stays must not cause every three seconds."""
    return min(RESTART_S * 2.0 ** min(failures - 1, 30), LONGEST_RESTART_S)
