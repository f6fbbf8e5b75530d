"""Compares the state backend that runs with the one for which the pods' memory was calculated.

``set_state_backend`` in the code wins over the manifest, and the operator knows only the manifest until the driver
runs. State on the heap needs memory that the sum for RocksDB does not include.
"""

from __future__ import annotations

from sparkstate_operator.observed import Report
from sparkstate_operator.plan import Revision

REASON = "BackendUnplanned"


def trouble(revision: Revision, report: Report | None) -> tuple[str, str] | None:
    """Reason and message where the pods lack memory for what runs; None where they have it, or nobody knows."""
    runs = report.document.get("backend") if report is not None and report.phase == "RUNNING" else None
    planned = revision.resolved.backend
    if runs != "hashmap" or planned == "hashmap":
        return None
    each = revision.effective("stateMemoryPerSlot")
    return (
        REASON,
        f"the job's code selects hashmap, but its manifest says {planned}: the pods have no memory for state on the "
        f"heap (stateMemoryPerSlot, {each} for each of {revision.slots} slots) and may be OOM-killed; set "
        "stateBackend.type: hashmap in the manifest, or remove set_state_backend from the code",
    )
