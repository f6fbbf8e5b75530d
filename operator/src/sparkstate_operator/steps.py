"""Reports transitions that are missing from the tables: it logs them as errors and counts them, and the decision is
carried out all the same. :mod:`core.transitions` says why nothing stops for them."""

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
            extra={"object": about.name, "namespace": namespace},
        )
