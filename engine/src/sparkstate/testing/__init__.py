"""For tests of jobs and of backends: a harness without Spark, and the kit that every state backend must
pass."""

from __future__ import annotations

from sparkstate.testing.conformance import check_shard_store
from sparkstate.testing.harness import HarnessSnapshot, KeyedProcessHarness
from sparkstate.testing.manual_clock import ManualClock

__all__ = ["HarnessSnapshot", "KeyedProcessHarness", "ManualClock", "check_shard_store"]
