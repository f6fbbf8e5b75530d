"""The stand-ins for a batch's keys and entries while no key is set: in ``open`` and in ``close``.

Without them, what a function writes there is lost in silence. Neither the record loop nor the state handles look
whether a key is set: they read and write what they are bound to, and this refuses to be read or written.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sparkstate import errors


class Unkeyed:
    """Refuses every access with the reason; ``what`` is the subject of the sentence."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.entries = self.read = self
        self.columns = None

    def _refuse(self, *_: Any) -> NoReturn:
        raise errors.StateError(
            f"{self._what} cannot be used here: no key is set. State, timers and the current key belong to a record "
            "or timer; use them in process_element and on_timer, not in open() or close()"
        )

    __getitem__ = __setitem__ = get = pop = put = room = _refuse
