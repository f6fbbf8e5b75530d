"""A harness of windows with built-in aggregates, in any backend and number of slots."""

from __future__ import annotations

from typing import Any, Final

from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

KEY_TYPES: Final = {"numbers": Types.LONG(), "text": Types.STRING()}
"""By the kind of the key ``k``."""


def harness(
    slices: Slices,
    outputs: tuple[Output, ...],
    kind: str = "numbers",
    backend: Any = "hashmap",
    slots: int = 1,
) -> KeyedProcessHarness:
    """With four shards; rows have the key ``k``, of a kind of ``KEY_TYPES``."""
    return KeyedProcessHarness(
        WindowAggregation(slices, ("k",), outputs),
        key=lambda row: row.k,
        key_type=KEY_TYPES[kind],
        backend=backend,
        parallelism=slots,
        shards=4,
    )
