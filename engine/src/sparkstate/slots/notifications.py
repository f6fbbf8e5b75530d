"""Tells the user's functions what became of checkpoints, beside whatever the slot is at."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from sparkstate import errors
from sparkstate.slots.slot_state import SlotState


class Notifications:
    """In the order in which they come, by a thread of its own: the driver does not wait for user code here.
    ``run`` guards user code."""

    def __init__(self, state: SlotState, run: threading.Lock) -> None:
        self._state = state
        self._run = run
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notify")
        self._failure: errors.SparkstateError | None = None

    def tell(self, checkpoint_id: int, *, completed: bool) -> None:
        """That checkpoint is complete, or will never be."""
        if any(operator.listens_to_checkpoints for operator in self._state.operators.values()):
            with contextlib.suppress(RuntimeError):  # the slot ends meanwhile
                self._thread.submit(self._tell, checkpoint_id, completed)

    def require_sound(self) -> None:
        """Raises the first error that a function has raised on being told."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Once all that came was told."""
        self._thread.shutdown(wait=True)

    def _tell(self, checkpoint_id: int, completed: bool) -> None:
        for operator in self._state.operators.values():
            with self._run:
                try:
                    operator.notify(checkpoint_id, completed=completed)
                except errors.SparkstateError as error:
                    self._failure = self._failure or error
