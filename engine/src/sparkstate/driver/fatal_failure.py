"""The consequence of a failed checkpoint or savepoint for the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sparkstate import errors

OF_THE_JOB: Final = (errors.Fenced, errors.SlotLost, errors.OperatorStateTooLarge)
"""Failures that end the incarnation, be it a checkpoint that failed or a savepoint that somebody asked for."""


@dataclass
class FatalFailure:
    """Why the job must not go on; None: it may. Written by the threads of checkpoints and savepoints,
    read by the epochs'."""

    error: errors.SparkstateError | None = None

    def keep(self, error: errors.SparkstateError) -> None:
        """The first error stays."""
        self.error = self.error or error
