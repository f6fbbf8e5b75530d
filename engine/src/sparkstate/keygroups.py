"""Key groups, shards and slots: fixed arithmetic, no state.

A key belongs to a key group for ever (``pmod(xxhash64(key columns), max_parallelism)``, computed in Spark only).
A shard is a fixed contiguous range of key groups with a store of its own; a slot owns a contiguous run of whole
shards. Rescaling moves shards between slots and never splits one.
"""

from __future__ import annotations

import array
from dataclasses import dataclass

from sparkstate import errors
from sparkstate_spec import key_space, problems

MAX_PARALLELISM_UPPER_BOUND = key_space.MOST
DEFAULT_SHARDS = 16


@dataclass(frozen=True, order=True)
class KeyGroupRange:
    """A contiguous, inclusive range of key groups; ``KeyGroupRange(0, 127)`` holds 128 of them."""

    start: int
    end: int

    def __contains__(self, key_group: int) -> bool:
        return self.start <= key_group <= self.end

    def __len__(self) -> int:
        return self.end - self.start + 1


def default_shards(parallelism: int, max_parallelism: int) -> int:
    """Room to grow four-fold, at least 16, never more than there are key groups (docs/rfcs/0002)."""
    return min(max(DEFAULT_SHARDS, key_space.round_up_to_power_of_two(4 * parallelism)), max_parallelism)


@dataclass(frozen=True)
class KeySpace:
    """How a job's keys are cut: ``max_parallelism`` key groups in ``shards`` shards. Fixed at the job's creation."""

    max_parallelism: int
    shards: int

    def __post_init__(self) -> None:
        if not 1 <= self.max_parallelism <= MAX_PARALLELISM_UPPER_BOUND:
            raise errors.SpecInvalid(
                f"maxParallelism is {self.max_parallelism}; it must lie between 1 and {MAX_PARALLELISM_UPPER_BOUND}"
            )
        if not 1 <= self.shards <= self.max_parallelism:
            raise errors.SpecInvalid(
                f"shards is {self.shards}; it must lie between 1 and maxParallelism ({self.max_parallelism})"
            )

    def key_groups_of_shard(self, shard: int) -> KeyGroupRange:
        """The range of shard number ``shard``; the ranges are contiguous and cover every key group once."""
        start = -(-shard * self.max_parallelism // self.shards)
        end = -(-(shard + 1) * self.max_parallelism // self.shards) - 1
        return KeyGroupRange(start, end)

    def shard_of_key_group(self, key_group: int) -> int:
        """The inverse of :meth:`key_groups_of_shard`."""
        return key_group * self.shards // self.max_parallelism

    def shards_of_slot(self, slot: int, slots: int) -> range:
        """The contiguous run of shards that slot number ``slot`` of ``slots`` owns."""
        if not 1 <= slots <= self.shards:
            raise errors.SpecInvalid(f"slots is {slots}; it {problems.beyond_shards(self.shards)}")
        return range(-(-slot * self.shards // slots), -(-(slot + 1) * self.shards // slots))

    def slot_of_shard(self, shard: int, slots: int) -> int:
        """The inverse of :meth:`shards_of_slot`."""
        return shard * slots // self.shards

    def slots_of_key_groups(self, slots: int) -> bytes:
        """The slot of every key group, as 16-bit numbers of this machine's byte order."""
        shards = map(self.shard_of_key_group, range(self.max_parallelism))
        return array.array("H", [self.slot_of_shard(shard, slots) for shard in shards]).tobytes()


def of_new_job(slots: int, max_parallelism: int | None, shards: int | None) -> KeySpace:
    """The key space of a job that begins without state; None for what its spec leaves out. Raises ``SpecInvalid`` for
    more shards than key groups."""
    if found := key_space.beyond_default(slots, max_parallelism, shards):
        raise errors.SpecInvalid(str(found))
    maximum = max_parallelism or key_space.default_max_parallelism(slots)
    return KeySpace(maximum, shards or default_shards(slots, maximum))
