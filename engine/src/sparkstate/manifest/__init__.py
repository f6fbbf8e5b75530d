"""A job's manifest: read, judged by the CRD's schema and rules, resolved to settings with the origin of each."""

from sparkstate.manifest.document import Manifest, load
from sparkstate.manifest.memory import MemorySum, memory_sum
from sparkstate.manifest.resolve import resolve
from sparkstate.manifest.resolved import Resolved, explain_rows

__all__ = ["Manifest", "MemorySum", "Resolved", "explain_rows", "load", "memory_sum", "resolve"]
