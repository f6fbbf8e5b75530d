"""Facts about a job in a cluster with nodes that tests and benchmarks share, whatever the job computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sparkstate_operator.core import phases

STUCK: Final = frozenset(phase for phase, meaning in phases.JOB.items() if meaning.stuck)
"""Phases that a job does not leave by itself, so that nobody waits for another one."""


@dataclass(frozen=True)
class Bucket:
    """A bucket as pods reach it."""

    endpoint: str
    name: str
    credentials: Mapping[str, str]
    """``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``."""
