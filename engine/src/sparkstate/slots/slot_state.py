"""All that a slot holds: a store for each of its shards, the operators over them, and the output taken by its sinks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sparkstate import clock, disposal, errors
from sparkstate.backends import loader
from sparkstate.backends.base import ShardStore, StoreFactory
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.local_state import folders
from sparkstate.operators import kinds
from sparkstate.operators.base import Operator
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.spec import JobFacts, Restored
from sparkstate.operators.state.operator_state_memory import OperatorStateMemory
from sparkstate.slots import protocol
from sparkstate.slots.held_output import HeldOutput
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.restoring import restore_operator_state, restore_shards


class SlotState:
    """Empty until it is restored. ``slots.epochs`` and the gate decide which thread may touch what, and when.

    ``directory`` is the slot's.
    """

    def __init__(self, plan: SlotPlan, directory: Path, clock_: clock.Clock) -> None:
        self.plan = plan
        self.directory = directory
        self._clock = clock_
        self.factory: StoreFactory = loader.create_store_factory(plan.backend, directory / folders.STORES)
        self.stores: dict[int, ShardStore] = {}
        """By shard."""
        self.operators: dict[str, Operator[Any]] = {}
        """By uid, in topological order."""
        self.budget = EpochBudget(directory / "overlays", self.factory)
        self.operator_state_memory = OperatorStateMemory(plan.backend.operator_state_bytes)
        self.transfer = Transfer()
        """Of the restore."""
        self.output = HeldOutput(plan, directory / "held")

    def restore_stores(self, request: protocol.RestoreShards) -> protocol.Restored:
        """Make the stores, and fill them from the handles."""
        plan = self.plan
        for shard in plan.key_space.shards_of_slot(plan.slot, plan.slots):
            self._make_store(shard)
        self.transfer.total_bytes = sum(file.size for handle in request.shards for file in handle.files)
        downloads = self.directory / folders.DOWNLOADS
        return restore_shards(plan, self.stores, request, downloads, self.transfer, self._renew_store)

    def _make_store(self, shard: int) -> ShardStore:
        key_groups = self.plan.key_space.key_groups_of_shard(shard)
        made = self.stores[shard] = self.factory.create(shard, key_groups, self._folder_of(shard))
        return made

    def _renew_store(self, shard: int) -> ShardStore:
        """An empty store in the place of the present one, which is closed."""
        self.stores[shard].close()
        shutil.rmtree(self._folder_of(shard), ignore_errors=True)
        return self._make_store(shard)

    def _folder_of(self, shard: int) -> Path:
        return folders.shard_folder(self.directory / folders.STORES, shard)

    def open_operators(self, request: protocol.RestoreShards) -> None:
        """Make the operators with their operator state, and open the user's functions, over restored stores."""
        plan = self.plan
        dealt = restore_operator_state(plan, request)
        restored_id = request.restored_id if request.restored_id >= 0 else None
        attempt = max(plan.incarnation - 1, 0)
        facts = JobFacts(parameters=plan.parameters, attempt=attempt, watermark=request.watermark)
        for spec in plan.operators:
            own = tuple(state for state in dealt if state.uid == spec.uid)
            operator = kinds.make(
                spec, self.stores, plan.key_space, self._clock, plan.slot, plan.slots, self.budget, facts,
                Restored(checkpoint_id=restored_id, states=own), self.operator_state_memory,
            )  # fmt: skip
            self.operators[spec.uid] = operator
            operator.open()

    def operator(self, uid: str) -> Operator[Any]:
        """Raises ``SpecInvalid`` where there is none of that uid."""
        try:
            return self.operators[uid]
        except KeyError:
            raise errors.SpecInvalid(
                f"there is no operator {uid!r}; this job has {', '.join(sorted(self.operators)) or 'none yet'}"
            ) from None

    def next_timers(self) -> tuple[int | None, int | None]:
        """The least committed timestamp of event and of processing time timers, over all operators."""
        pairs = [operator.next_timer() for operator in self.operators.values()]
        event = [pair[0] for pair in pairs if pair[0] is not None]
        processing = [pair[1] for pair in pairs if pair[1] is not None]
        return min(event, default=None), min(processing, default=None)

    def close_operators(self) -> None:
        """Close the user's functions, every one. Raises the first of their errors."""
        disposal.close_all([operator.close for operator in self.operators.values()])

    def close(self) -> None:
        """Close sinks and stores, every one; the operators are closed before. Raises the first of their errors."""
        stores = [store.close for store in self.stores.values()]
        disposal.close_all([self.output.close, *stores, self.factory.close])
