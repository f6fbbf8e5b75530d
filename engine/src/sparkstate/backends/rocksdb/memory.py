"""Managed memory of one slot: how a budget is divided, as pure arithmetic.

First the overlays and the column buffers get their shares. Flink has no counterparts for them: there a write goes to
RocksDB at once. The division of the rest is Flink's (``RocksDBMemoryControllerUtils``). While full memtables are being
flushed, the write buffer manager may hold half as much again as its limit. So the limit is lower than the share that
the ratio names, and the cache, to which write buffers are charged, is lower than the budget by the possible excess.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate import errors
from sparkstate.settings import StateBackendSettings

EFFECTIVE_HIGH_PRIO_POOL_RATIO = 0.5
"""RocksDB's own default; rocksdict has no way to set it."""

_KIB = 1024
_MIB = 1024 * _KIB
_LEAST_BUDGET = 1 * _MIB
_OVERLAY_SHARE = 6
_FILTER_SHARE = 8
_BUFFER_SHARE = 24
LEAST_MEMTABLE = 4 * _KIB
"""Of write buffers for each memtable: the smallest block, which a memtable takes with its first row. With less, a row
in each of them is beyond the limit, and they are flushed all the time. docs/state-backends.md has the figures."""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Bytes per slot. ``source`` is ``managed``, ``fixed-per-slot`` or ``unmanaged`` (then there is no budget)."""

    source: str
    budget: int = 0
    overlays: int = 0
    """Bytes that the overlays of running epochs may take before they go to disk: a sixth of the budget.
    The rest is RocksDB's."""
    filters: int = 0
    """Bytes that the filters of overlays on disk may take: an eighth of what overlays may. They fit into the half that
    is left for a commit, of which overlays on disk need little."""
    buffers: int = 16 * _MIB
    """Bytes of column buffers: a 24th of the budget, 16 MiB without one."""
    cache: int = 0
    write_buffers: int = 0
    arena_block: int = 0
    requested_high_prio_pool_ratio: float = 0.1
    notices: tuple[str, ...] = ()

    @property
    def bounded(self) -> bool:
        """Whether one cache and one write buffer manager are shared by all stores of the slot."""
        return self.source != "unmanaged"


def plan(settings: StateBackendSettings) -> MemoryPlan:
    """Divide the slot's budget: fixed memory counts before managed memory; neither means unmanaged.

    Raises :class:`errors.SpecInvalid` for ratios outside 0 to 1 and for a budget below 1 MiB.
    """
    ratio = settings.write_buffer_ratio
    high_prio = settings.high_prio_pool_ratio
    if not 0.0 < ratio < 1.0:
        raise errors.SpecInvalid(f"writeBufferRatio is {ratio}; it must lie between 0 and 1, both excluded")
    if not 0.0 <= high_prio < 1.0:
        raise errors.SpecInvalid(
            f"highPrioPoolRatio is {high_prio}; it must lie between 0 and 1 (1 excluded)"
        )
    if settings.fixed_memory_bytes is not None:
        source, budget = "fixed-per-slot", settings.fixed_memory_bytes
    elif settings.managed_memory_bytes is not None:
        source, budget = "managed", settings.managed_memory_bytes
    else:
        return MemoryPlan(source="unmanaged", requested_high_prio_pool_ratio=high_prio)
    if budget < _LEAST_BUDGET:
        raise errors.SpecInvalid(
            f"{source} memory is {budget} bytes per slot; RocksDB needs at least {_LEAST_BUDGET}"
        )
    overlays = budget // _OVERLAY_SHARE
    buffers = budget // _BUFFER_SHARE
    stores = budget - overlays - buffers
    write_buffers = int(2 * stores * ratio / 3)
    return MemoryPlan(
        source=source,
        budget=budget,
        overlays=overlays,
        filters=overlays // _FILTER_SHARE,
        buffers=buffers,
        cache=int((3 - ratio) * stores / 3),
        write_buffers=write_buffers,
        arena_block=arena_block(write_buffers),
        requested_high_prio_pool_ratio=high_prio,
        notices=_high_prio_notices(high_prio),
    )


def scarcity(plan: MemoryPlan, ratio: float, stores: int, states: int) -> str:
    """A sentence with the remedy where the write buffers are too small for the memtables of a slot: one for each of
    ``states`` in each of ``stores``, which are the slot's shards. Empty where they suffice, or nothing bounds them."""
    memtables = stores * states
    if not plan.bounded or not memtables or plan.write_buffers // memtables >= LEAST_MEMTABLE:
        return ""
    of_stores = 1 - 1 / _OVERLAY_SHARE - 1 / _BUFFER_SHARE
    needed = -(-int(memtables * LEAST_MEMTABLE * 1.5 / ratio / of_stores) // _MIB)
    field = "fixedMemoryPerSlot" if plan.source == "fixed-per-slot" else "managedMemoryPerSlot"
    return (
        f"{field} leaves {plan.write_buffers // _KIB} KiB for write buffers, and a slot has {memtables} of them, one "
        f"for each state ({states}) in each of its shards ({stores}). With less than {LEAST_MEMTABLE // _KIB} KiB "
        "each, RocksDB writes small files all the time, and epochs take several times as long. Give "
        f"{field} {needed}Mi or more, give the job more slots, or create it with fewer shards"
    )


def arena_block(write_buffers: int) -> int:
    """The unit in which a memtable takes memory: 1/256 of all write buffers, 4 KiB to 1 MiB, whole pages.

    RocksDB's own choice (an eighth of the buffer size) would let a slot's many small memtables fill the limit
    with empty blocks, and flush for ever.
    """
    wanted = write_buffers // 256 // (4 * _KIB) * (4 * _KIB)
    return min(max(wanted, 4 * _KIB), _MIB)


def _high_prio_notices(requested: float) -> tuple[str, ...]:
    if requested == 0.0:
        return (
            "memory.high-prio-pool-ratio is 0, which is strongly advised against: index and filter blocks "
            "would compete with data blocks; leave it at 0.1. It is effective 0.5: rocksdict cannot set it",
        )
    if requested not in (0.1, EFFECTIVE_HIGH_PRIO_POOL_RATIO):
        return (f"memory.high-prio-pool-ratio is {requested}, and effective 0.5: rocksdict cannot set it",)
    return ()
