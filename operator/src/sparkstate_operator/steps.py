"""Transitions that no table has: logged as errors and counted, and the decision is carried out all the same.

Why nothing stops for them: :mod:`core.transitions`.
"""

from __future__ import annotations

import logging

from sparkstate_operator import actions, observed
from sparkstate_operator.metrics import Metrics

_log = logging.getLogger(__name__)


def tell(
    kind: str,
    about: observed.Job | observed.Snapshot,
    namespace: str,
    decision: actions.Decision,
    metrics: Metrics,
) -> None:
    """``kind``: job or snapshot."""
    for step in decision.steps:
        if step.known:
            continue
        metrics.unknown_transitions.labels(kind, step.before, step.after).inc()
        _log.error(
            "phase %s -> %s (%s) is in no table of transitions. This is a bug; please report it",
            step.before or "-",
            step.after,
            step.cause.when,
            extra={"about": about.name, "namespace": namespace},
        )
