"""A state backend of the user's own is tried before the job takes up its state: once for each driver, so once for each
version of the job, beside the start of Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from sparkstate import clock
from sparkstate.conformance import trial
from sparkstate.settings import StateBackendSettings

FOLDER: Final = "backend-trial"
"""Of the working directory."""


class BackendTrial:
    """Begun at once where the manifest names the class; otherwise when the job's code has chosen one. A trial that
    nobody needs any more is ended, so that a class that the job does not use costs it nothing, even one that hangs."""

    def __init__(
        self,
        planned: StateBackendSettings,
        python_path: tuple[str, ...],
        work_dir: Path,
        clock_: clock.Clock,
        say: Callable[[str], object],
    ) -> None:
        self._planned = planned
        self._python_path = python_path
        self._directory = work_dir / FOLDER
        self._clock = clock_
        self._say = say
        self._unwanted = threading.Event()
        self._begun = self._begin(planned) if planned.type == "custom" else None

    def require(self, chosen: StateBackendSettings) -> None:
        """Wait for the verdict on the backend that the job has. Raises ``BackendRefused`` and ``BackendUnavailable``
        as ``conformance.trial`` does."""
        begun = self._begun
        if begun is None or chosen.type != "custom" or _tried(chosen) != _tried(self._planned):
            self.end()
            begun = self._begin(chosen) if chosen.type == "custom" else None
        if begun is None:
            return
        passed = begun.result()
        self._say(
            f"the state backend {chosen.class_name} passes the conformance kit ({passed.checks} checks in "
            f"{passed.seconds:.1f} s)"
        )

    def end(self) -> None:
        """Nobody asks for the verdict any more. Its process ends within a moment."""
        self._unwanted.set()

    def _begin(self, backend: StateBackendSettings) -> Future[trial.Passed]:
        self._unwanted = threading.Event()
        pool = ThreadPoolExecutor(1, thread_name_prefix="backend-trial")
        begun = pool.submit(
            trial.run,
            backend,
            self._python_path,
            self._directory,
            self._clock,
            trial.BUDGET_S,
            self._unwanted,
        )
        pool.shutdown(wait=False)
        return begun


def _tried(backend: StateBackendSettings) -> tuple[object, ...]:
    """The settings that a trial depends on. The kit is not run again for others that the job's code changes."""
    memory = backend.fixed_memory_bytes or backend.managed_memory_bytes
    return (backend.class_name or "").replace(":", "."), backend.options, memory
