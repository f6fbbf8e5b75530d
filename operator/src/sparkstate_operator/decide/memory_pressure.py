"""Memory of a running job that is nearly used up, for the condition ``MemoryPressure``.

``Degraded`` would not fit: everything still runs as asked, and Argo CD would show a job as degraded that needs nothing
but a larger number in its next version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate_operator import observed
from sparkstate_operator.core.conditions import MEMORY_PRESSURE, Trouble
from sparkstate_operator.decide import progress
from sparkstate_operator.decide.draft import Draft

FIELD = "spec.operatorStateMemoryPerSlot"


def of(draft: Draft) -> Trouble | None:
    """The pressure that the driver tells of; None without any. Of a driver that runs and does not answer nobody knows
    better than before. The first look that finds pressure records an Event."""
    known = _known(draft.seen.job.status)
    report = draft.seen.report
    if report is None:
        return known if draft.phase == "Running" else None
    notice = report.operator_state
    if notice is None:
        return None
    found = told(notice, known)
    if known is None:
        draft.note("OperatorStateNearLimit", found.message, warning=True)
    return found


def told(notice: observed.OperatorStateNotice, known: Trouble | None) -> Trouble:
    """The notice in words. It stays ``known`` until the next ten percent, whichever slot is fullest by now: each change
    is a write to the API server."""
    size = progress.size(notice.limit_bytes)
    head = f"operator state takes {notice.share} % or more of {FIELD} ({size})"
    if known is not None and known.message.startswith(head):
        return known
    return Trouble(
        "OperatorStateNearLimit",
        f"{head} in slot {notice.slot}; most of it is state {notice.state!r} of operator {notice.operator!r}. A job "
        f"that needs more than the limit ends with OperatorStateTooLarge: raise {FIELD}, for example to "
        f"{progress.size(2 * notice.limit_bytes)}, or keep these values in keyed state",
    )


def _known(status: Mapping[str, Any]) -> Trouble | None:
    """The pressure that the status shows so far."""
    for one in status.get("conditions") or ():
        if one.get("type") == MEMORY_PRESSURE and one.get("status") == "True":
            return Trouble(str(one.get("reason") or ""), str(one.get("message") or ""))
    return None
