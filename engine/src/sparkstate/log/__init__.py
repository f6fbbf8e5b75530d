"""One numbered log per lineage: claims, incarnations, commits and tombstones (docs/formats.md)."""

from sparkstate.log.fence import FenceGuard, Verdict
from sparkstate.log.lineage import JobName, Lineage, find, open_lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.records import Token
from sparkstate.log.state import LogState

__all__ = [
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
