"""Keeps the watches going. The first answer that kopf takes for final (404 or 410, say) ends all of them; here they
begin anew, each with a list. The list shows every change but a deletion: that of a driver's pod is found when the
driver does not answer, and any other with the next look at the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp

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
        failed: Exception | None = None
        try:
            await live()
            why = "they have ended without an error"
        except errors.WatchesBlocked:
            raise
        except Exception as error:
            failed, why = error, f"{type(error).__name__}: {error}"
        failures = 1 if watches.were_steady() else failures + 1
        watches.ended()
        _tell(why, failed)
        await asyncio.sleep(pause_s(failures))


def _tell(why: str, failed: Exception | None) -> None:
    """An error of the API server or of the way to it is a warning. Any other one is a bug, and is told with its
    traceback: kopf's errors have no public names, and are known by their module."""
    known = (errors.OperatorError, aiohttp.ClientError, OSError)
    if failed is None or isinstance(failed, known) or type(failed).__module__.startswith("kopf."):
        _log.warning("the watches failed and begin anew: %s", why)
    else:
        _log.error("the watches failed and begin anew: %s", why, exc_info=failed)


def pause_s(failures: int) -> float:
    """Before the watches begin anew, after so many lives in a row in which they were not all live for a while. Each
    life begins with lists of everything, which an error that stays must not cause every three seconds."""
    return min(RESTART_S * 2.0 ** min(failures - 1, 30), LONGEST_RESTART_S)
