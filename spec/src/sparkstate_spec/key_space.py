"""How many key groups a job has that begins without state, and leaves ``maxParallelism`` out.

State keeps the number that it was created with: by another number of slots, or by a ``maxParallelism`` that has been
left out since. A spec alone therefore does not tell how many key groups its job has. Whoever asks here has to know that
there is no state to go on from.
"""

from __future__ import annotations

from sparkstate_spec.problems import Problem

LEAST, MOST = 128, 32768


def round_up_to_power_of_two(number: int) -> int:
    """The least power of two that is not below ``number`` (1 for 0 and 1)."""
    return 1 if number <= 1 else 1 << (number - 1).bit_length()


def default_max_parallelism(slots: int) -> int:
    """The default of Flink's ``KeyGroupRangeAssignment.computeDefaultMaxParallelism``: the power of two at or above
    1.5 × slots, between 128 and 32768."""
    return min(max(round_up_to_power_of_two(slots + slots // 2), LEAST), MOST)


def beyond_default(slots: int, max_parallelism: int | None, shards: int | None) -> Problem | None:
    """The finding about more shards than a job that begins without state would have key groups; None where the spec
    gives ``maxParallelism``, which a rule compares."""
    key_groups = default_max_parallelism(slots)
    if max_parallelism is not None or shards is None or shards <= key_groups:
        return None
    return Problem(
        "spec.shards",
        f"there are more shards than key groups: a job that begins without state has {key_groups} of them with "
        f"slots {slots} and no maxParallelism; lower shards, or give a maxParallelism of at least {shards}",
        f"it is {shards}",
    )
