"""For tests of jobs and of backends: a harness for one function, the calls of a job's keyed stream that make functions,
and the conformance kit as tests.

A real operator runs here over a real backend, without Spark and without processes. The room knows operators, backends
and types. It knows neither ``spark`` nor ``control`` nor the driver, so a user's test needs no Java; and nothing
published imports it.
"""

from __future__ import annotations

from sparkstate.conformance import check_shard_store
from sparkstate.testing.backend_conformance import BackendConformance
from sparkstate.testing.broadcast_harness import BroadcastHarness, KeyedBroadcastHarness
from sparkstate.testing.harness import HarnessSnapshot, KeyedProcessHarness
from sparkstate.testing.manual_clock import ManualClock
from sparkstate.testing.two_input_harness import KeyedCoProcessHarness
from sparkstate.testing.typed_stream import TypedStream, keyed

__all__ = [
    "BackendConformance",
    "BroadcastHarness",
    "HarnessSnapshot",
    "KeyedBroadcastHarness",
    "KeyedCoProcessHarness",
    "KeyedProcessHarness",
    "ManualClock",
    "TypedStream",
    "check_shard_store",
    "keyed",
]
