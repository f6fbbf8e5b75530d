"""How a life is drawn as a table: causes, each with the phase that it leads to and the phases that it ends.

There are two rules. A life has all of its transitions in one table (``job_life``, ``snapshot_life``). Whoever decides
says what has happened, never which phase follows: the table gives the phase.

A transition that is not in its table is our mistake, and no reason to leave a job alone. A decision follows from pods
and reports. The phase in the status is the least reliable input: it may come from a backup, from a newer operator, or
from somebody's hand. So the cause leads to its phase all the same, and the reconciler logs the step as an error and
counts it. If it stopped instead, nobody would look after a job that runs, or start one again that has failed. Only
tests stop (:data:`STRICT`).
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import Final

STRICT: Final = os.environ.get("SPARKSTATE_STRICT_LIVES") == "1"
"""Whether a step that is not in its table is refused. For tests only."""
NEW: Final = ""
"""Where an object stands that has no phase yet."""


class Actor(enum.StrEnum):
    """The party that causes a transition."""

    USER = "user"
    OPERATOR = "operator"
    DRIVER = "driver"
    KUBERNETES = "Kubernetes"


@dataclass(frozen=True)
class Cause:
    """Something that happens to a job or a snapshot."""

    who: Actor
    when: str
    """The event in words for people; the diagram in docs/operator.md has them on its arrow."""
    to: str
    """The phase that follows."""
    ends: frozenset[str]
    """The phases that it ends. Where an object is in ``to`` already, nothing changes."""
    stale: frozenset[str] = frozenset()
    """Phases that it ends only because the status was older than what it tells of: it was lost, or came from a backup,
    and has been brought up to the newest pod, whose fate then decides."""
    keeps: frozenset[str] = frozenset()
    """Phases that go on in spite of it, because they say more than ``to`` does."""


@dataclass(frozen=True)
class Step:
    """One change of a phase, with its cause."""

    before: str
    after: str
    cause: Cause

    @property
    def known(self) -> bool:
        """Whether the table has it."""
        return self.before == self.after or self.before in self.cause.ends | self.cause.stale


def step(before: str, cause: Cause) -> Step:
    """Where ``cause`` leads from ``before``. Raises LookupError for a step that is not in the table,
    if that is :data:`STRICT`."""
    found = Step(before, before if before in cause.keeps else cause.to, cause)
    if STRICT and not found.known:
        raise LookupError(f"no table has {before or 'new'} -> {found.after} ({cause.when})")
    return found
