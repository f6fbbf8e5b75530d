"""A job's manifest: read, judged by the CRD's schema and rules, resolved to settings with the origin of each.

The meaning of the spec is not decided here but in ``sparkstate_spec`` (RFC 0027), which the operator reads too: units,
Flink's keys, layers, built-in values, rules, the memory sum. The room turns them into ``JobSettings`` and findings into
errors. It starts nothing, reads no storage, and knows no driver.
"""

from sparkstate.manifest.document import Manifest, flink_answers, load
from sparkstate.manifest.memory import MemorySum, memory_sum
from sparkstate.manifest.resolve import resolve
from sparkstate.manifest.resolved import Resolved, explain_rows

__all__ = [
    "Manifest",
    "MemorySum",
    "Resolved",
    "explain_rows",
    "flink_answers",
    "load",
    "memory_sum",
    "resolve",
]
