"""A revision as decisions read it: the resolved spec with its durations as seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkstate_operator.core import naming, revisions
from sparkstate_operator.core.settings import Resolved
from sparkstate_spec import built_in, units

DEATH_MARGIN_S = 10.0
"""On top of ``fenceTimeout`` and ``sinkTimeout``: for the clock and the scheduling of a process that nobody can ask."""
DEFAULT_DEATH_S = built_in.plain("fenceTimeout") + built_in.plain("sinkTimeout") + DEATH_MARGIN_S
"""The whole time for a job whose spec nobody knows any more, by the defaults of both."""
AWAY_S = 30.0
"""A node that does not answer keeps its driver this long; Kubernetes' own default is five minutes."""
TERMINATION_GRACE_S = 120
"""A driver's grace period where its pod template names none: the time for a last checkpoint."""


@dataclass(frozen=True)
class Revision:
    """One accepted spec, every default filled in. ``name`` is that of its ControllerRevision."""

    name: str
    resolved: Resolved

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path; ``default`` where there is none."""
        found = self.resolved.get(path)
        return default if found is None else found

    def effective(self, path: str) -> Any:
        """The value at a dotted path; the built-in one where an earlier version's revision has none."""
        return self.get(path, built_in.value(path))

    def seconds(self, path: str) -> float:
        """A duration of the spec."""
        return units.duration_s(str(self.effective(path)))

    @property
    def cluster(self) -> bool:
        """Whether there are executor pods."""
        return bool(self.get("deployment") == "cluster")

    @property
    def slots(self) -> int:
        return self.resolved.slots

    @property
    def death_s(self) -> float:
        """After this time a driver whose end nobody confirms can do no more harm."""
        return self.seconds("fenceTimeout") + self.seconds("sinkTimeout") + DEATH_MARGIN_S

    @property
    def savepoint_s(self) -> float:
        """How long a savepoint may take."""
        return self.seconds("checkpointing.timeout")

    @property
    def kubelet_restarts(self) -> bool:
        """Whether the kubelet may start a crashed driver again in its pod. It does so before anybody else can look, so
        it may not where the restart strategy (``decide.restarts``) lets the first failure end the job."""
        match str(self.effective("restart.strategy")):
            case "none":
                return False
            case "fixed-delay":
                return int(self.effective("restart.fixedDelay.attempts")) > 0
            case "failure-rate":
                return int(self.effective("restart.failureRate.maxFailuresPerInterval")) > 1
        return True

    @property
    def service_account(self) -> str | None:
        """The user's ServiceAccount; None: one is made for the job."""
        return self.resolved.get("serviceAccountName")  # type: ignore[no-any-return]


def of_spec(name: str, resolved: Resolved) -> Revision:
    """The revision of the job called ``name`` that this spec is."""
    return Revision(naming.revision(name, revisions.digest(resolved)), resolved)
