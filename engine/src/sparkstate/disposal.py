"""The end of things that are closed one after another: none of them stays open because one before it failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

_log = logging.getLogger("sparkstate")


def close_all(closes: Iterable[Callable[[], object]]) -> None:
    """Make all of these calls in order, whatever they raise. Raises the first error; the later ones are logged, because
    a caller reports one, and the first is nearest to the cause. (``contextlib.ExitStack`` raises the last.)"""
    first: BaseException | None = None
    for close in closes:
        try:
            close()
        except BaseException as error:  # SystemExit too: user code may call sys.exit() while it is closed
            if first is None:
                first = error
            else:
                _log.error("closing raised %s: %s, after an earlier error", type(error).__name__, error)
    if first is not None:
        raise first
