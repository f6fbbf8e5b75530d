"""The subtasks of a harness: an operator for each, with a function of its own and the stores of its own shards."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sparkstate import disposal
from sparkstate.backends.base import ShardStore
from sparkstate.checkpoint import operator_parts
from sparkstate.checkpoint.operator_parts import OperatorPart
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.clock import Clock
from sparkstate.functions import KeyedFunction
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.base import EpochOverlay, Operator
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.spec import JobFacts, KeyedSpec, Restored


class FunctionCopies:
    """Gives each subtask of each life a function object.

    In the first life the first subtask has the author's own object. A function without variables in checkpoints that is
    alone keeps it in all lives; otherwise each further function is a copy of what the author has given.
    """

    def __init__(self, function: KeyedFunction) -> None:
        self._function = function
        self._has_variables = isinstance(function.author_object, CheckpointedFunction)
        self._lives = 0
        try:
            self._original = copy.deepcopy(function)
        except Exception:  # nobody may need one; whoever does is told why by the copy of the function itself
            self._original = function

    def next_life(self, parallelism: int) -> list[KeyedFunction]:
        """The functions of so many subtasks."""
        keeps = self._lives == 0 or (parallelism == 1 and not self._has_variables)
        self._lives += 1
        copies = parallelism - 1 if keeps else parallelism
        return [self._function] * keeps + [copy.deepcopy(self._original) for _ in range(copies)]


class Subtasks:
    """One life of all subtasks; open from the beginning."""

    def __init__(
        self,
        spec: KeyedSpec,
        functions: Sequence[KeyedFunction],
        stores: Mapping[int, ShardStore],
        key_space: KeySpace,
        clock: Clock,
        facts: JobFacts,
        restored: Sequence[Restored],
    ) -> None:
        """``restored`` has one entry for each function."""
        self.functions = functions
        self._key_space = key_space
        self.operators: list[Operator[Any]] = []
        for number, function in enumerate(functions):
            shards = key_space.shards_of_slot(number, len(functions))
            self.operators.append(
                kinds.make(
                    dataclasses.replace(spec, function=function),
                    {shard: stores[shard] for shard in shards},
                    key_space,
                    clock,
                    number,
                    len(functions),
                    facts=facts,
                    restored=restored[number],
                )
            )
        for operator in self.operators:
            operator.open()

    def number_of(self, key_group: int) -> int:
        """The subtask that has this key group."""
        shard = self._key_space.shard_of_key_group(key_group)
        return self._key_space.slot_of_shard(shard, len(self.operators))

    def begin(self, epoch: int, watermark: int, processing_time: int) -> list[EpochOverlay]:
        """An overlay for each."""
        return [operator.begin(epoch, watermark, processing_time) for operator in self.operators]

    def end(self, overlays: Sequence[EpochOverlay], watermark: int) -> None:
        """Finish and commit the epoch."""
        parts = list(zip(self.operators, overlays, strict=True))
        for operator, overlay in parts:
            operator.finish(overlay, watermark)
        commit_overlays(parts)

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> tuple[bytes, ...]:
        """The operator state of each, in its stored form."""
        images = [
            operator.snapshot_operator_state(checkpoint_id, timestamp_ms) for operator in self.operators
        ]
        parts = [
            OperatorPart(slot=number, slots=len(images), states=tuple(image.encode() for image in own))
            for number, own in enumerate(images)
        ]
        return tuple(map(operator_parts.encode, parts))

    def notify(self, checkpoint_id: int, *, completed: bool) -> None:
        """Tell the functions of the end of a checkpoint."""
        for operator in self.operators:
            operator.notify(checkpoint_id, completed=completed)

    def close(self) -> None:
        """Close the functions, every one. Raises the first of their errors."""
        disposal.close_all([operator.close for operator in self.operators])


def dealt(checkpoint_id: int, stored: Sequence[bytes], parallelism: int) -> list[Restored]:
    """The share of each of so many subtasks in a snapshot with this operator state."""
    names = [f"operator state {number}" for number in range(len(stored))]
    parts = list(map(operator_parts.decode, stored, names))
    operator_parts.check_together(parts, names)
    return [
        Restored(
            checkpoint_id=checkpoint_id,
            states=operator_parts.dealt_to(number, parallelism, parts) if parts else (),
        )
        for number in range(parallelism)
    ]
