"""The state backend that runs, against the one that the pods' memory was reckoned for.

The code's ``set_state_backend`` wins over the manifest, and the operator knows the manifest alone
until the driver runs. State on the heap needs room that the sum for RocksDB does not have.
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
        f"the job's code runs hashmap, its manifest says {planned}: the pods have no room for the state on the heap "
        f"(stateMemoryPerSlot, {each} for each of {revision.slots} slots) and may be killed for their memory; say "
        "stateBackend.type: hashmap in the manifest, or leave set_state_backend out of the code",
    )
