"""Compares the state backend that runs with the one for which the pods' memory was calculated.

``set_state_backend`` in the code wins over the manifest, and the operator knows only the manifest until the driver
runs. State on the heap needs memory that the sum for RocksDB does not include.
"""

from __future__ import annotations

from sparkstate_operator.observed import Report
from sparkstate_operator.plan import Revision

REASON = "BackendUnplanned"
_REMEDIES = {"hashmap": "stateBackend.type: hashmap", "custom": "stateBackend.class"}


def trouble(revision: Revision, report: Report | None) -> tuple[str, str] | None:
    """Reason and message where the pods lack memory for what runs; None where they have it, or nobody knows."""
    runs = report.document.get("backend") if report is not None and report.phase == "RUNNING" else None
    planned = revision.resolved.backend
    if runs not in _REMEDIES or planned != "rocksdb":
        return None
    each = revision.effective("stateMemoryPerSlot")
    return (
        REASON,
        f"the job's code selects {runs}, but its manifest says {planned}: the pods have no memory for state on the "
        f"heap (stateMemoryPerSlot, {each} for each of {revision.slots} slots) and may be OOM-killed; set "
        f"{_REMEDIES[runs]} in the manifest, or remove set_state_backend from the code",
    )
