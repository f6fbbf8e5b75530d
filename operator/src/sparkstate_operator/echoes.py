"""Tells the echoes of this process's own writes from other events.

A status whose progress was written comes back through the watch, with nothing in it that calls for a look: with
thousands of jobs these echoes would cause half of all looks. An echo is known by its resourceVersion. An object in that
version is what was written, and nobody has touched it since.
"""

from __future__ import annotations


class Echo:
    """Of one object. The event may come before the answer to the write that it is the echo of."""

    def __init__(self) -> None:
        self._written = ""
        self._before = ""
        """The version before the newest write. A list that was read before that write may arrive after
        it, and does not count as an event."""
        self._writing = False
        self._heard: set[str] = set()

    def is_news(self, version: str) -> bool:
        """Whether an event with the object in this version says anything new. While a write is under way that is not
        known yet: :meth:`end` tells."""
        if self._writing:
            self._heard.add(version)
            return False
        return version not in (self._written, self._before)

    def begin(self) -> None:
        """A write begins."""
        self._writing = True

    def end(self, version: str) -> bool:
        """The write has ended with the object in this version (empty: it failed). Whether there was news meanwhile."""
        self._before = self._written if version else ""
        self._written, self._writing = version, False
        news = bool(self._heard - {version, self._before})
        self._heard.clear()
        return news
