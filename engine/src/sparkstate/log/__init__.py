"""One numbered log per lineage: claims, incarnations, commits and tombstones (docs/formats.md).

The log alone decides which driver may commit and which checkpoint is complete; ``log.log`` has the theory. It knows
object stores and a clock. It opens none of the files that its records name: ``checkpoint`` writes and deletes those.
"""

from sparkstate.log.fence import FenceGuard, Verdict
from sparkstate.log.lineage import JobName, Lineage, find, open_lineage
from sparkstate.log.log import ClaimedLog, LineageLog
from sparkstate.log.records import Token
from sparkstate.log.state import LogState

__all__ = [
    "ClaimedLog",
    "FenceGuard",
    "JobName",
    "Lineage",
    "LineageLog",
    "LogState",
    "Token",
    "Verdict",
    "find",
    "open_lineage",
]
