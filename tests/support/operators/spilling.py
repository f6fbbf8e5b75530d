"""Operators whose overlays go to disk at every occasion, beside ones that keep everything in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from support.operators import driven as ops

from sparkstate.backends.base import ShardStore, StoreFactory
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.functions import KeyedProcessFunction, OutputTag, ReduceFunction, TimeDomain
from sparkstate.operators.keyed.keyed_operator import KeyedOperator
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import ManualClock

ODD = OutputTag("odd", Types.LONG())
OPERATIONS = 16
LIMITS = st.sampled_from([None, 0, 1_000, 2_000, 6_000, 12_000])
"""Bytes for overlays: in memory, everything on disk, and some of it, at one time or another of an epoch."""


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Everything(KeyedProcessFunction):
    """The amount of a row says what to do: its remainder by ``OPERATIONS`` which thing, the rest with what."""

    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl

    def open(self, ctx):
        self.value = ctx.get_state(self.living(ValueStateDescriptor("value", Types.LONG())))
        self.tags = ctx.get_state(self.living(ValueStateDescriptor("tags", Types.LIST(Types.LONG()))))
        self.list = ctx.get_list_state(self.living(ListStateDescriptor("list", Types.LONG())))
        self.map = ctx.get_map_state(self.living(MapStateDescriptor("map", Types.LONG(), Types.LONG())))
        self.sum = ctx.get_reducing_state(self.living(ReducingStateDescriptor("sum", Sum(), Types.LONG())))

    def living(self, descriptor: Any) -> Any:
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        return descriptor

    def process_element(self, row, ctx):
        argument, operation = divmod(row.amount, OPERATIONS)
        self.do(operation, argument, ctx)
        yield row.user, self.value.value() or 0
        if operation % 5 == 0:
            yield ODD, (argument,)
        if operation == OPERATIONS - 1:
            raise ValueError("after everything was changed")

    def do(self, operation: int, argument: int, ctx: Any) -> None:
        timers = ctx.timer_service()
        match operation:
            case 0 | 15:
                self.value.update((self.value.value() or 0) + argument)
                self.list.add(argument)
                self.map.put(argument % 3, argument)
                timers.register_event_time_timer(argument)
            case 1:
                self.value.clear()
            case 2:
                self.tags.update([*(self.tags.value() or []), argument])
            case 3:
                self.list.add_all([argument, argument + 1])
            case 4:
                self.list.update([len(list(self.list.get()))])
            case 5:
                self.map.put(argument % 5, argument)
            case 6:
                self.map.remove(argument % 5)
            case 7:
                self.map.clear()
            case 8:
                self.sum.add(argument)
            case 9:
                self.value.set_current_namespace(argument % 3)
                self.value.update((self.value.value() or 0) + 1)
                self.map.set_current_namespace("n")
                self.map.put(argument, len(list(self.map.items())))
            case 10:
                timers.register_event_time_timer(argument)
            case 11:
                timers.delete_event_time_timer(argument)
            case 12:
                timers.register_processing_time_timer(argument)
            case 13:
                timers.register_event_time_timer(argument, "n")
            case _:
                self.value.update(sum(self.list.get()) + sum(v for _, v in self.map.items()))

    def on_timer(self, timestamp, ctx):
        self.value.update((self.value.value() or 0) + timestamp)
        timers = ctx.timer_service()
        if timestamp % 4 == 0:
            timers.register_event_time_timer(timestamp + 3)
            timers.register_processing_time_timer(timestamp // 2)
        if timestamp % 5 == 2:
            timers.register_processing_time_timer(timestamp)
        if timestamp % 6 == 1:
            timers.delete_event_time_timer(timestamp + 1)
        yield ctx.get_current_key(), self.value.value()


class Side:
    """One operator over stores of its own: RocksDB, whose overlays may take ``limit`` bytes; with None the stores of
    the HashMap backend, whose overlays never go to disk."""

    def __init__(
        self, folder: Path, limit: int | None, function: KeyedProcessFunction | None = None, **options: Any
    ) -> None:
        self.folder = folder / "overlays"
        self.factory: StoreFactory = HashMapStoreFactory()
        if limit is not None:
            settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=8 * MIB)
            self.factory = RocksDBStoreFactory(settings, folder, ManualClock())
        self.stores: dict[int, ShardStore] = {
            shard: self.factory.create(shard, ops.KEY_SPACE.key_groups_of_shard(shard), folder / str(shard))
            for shard in range(4)
        }
        self.budget = EpochBudget(self.folder, self.factory, limit)
        self.operator: KeyedOperator = ops.make_operator(
            function or Everything(), self.stores, budget=self.budget, **options
        )

    def files(self) -> list[str]:
        """What lies on disk for overlays."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def state(self, users: list[str]) -> Iterator[tuple[Any, ...]]:
        """Everything that is committed."""
        for user in users:
            for name in ("value", "tags", "list", "map", "sum"):
                for namespace in (None, 0, 1, 2, "n"):
                    yield user, name, namespace, self.operator.read_value(name, user, namespace)
        for domain in ("EVENT_TIME", "PROCESSING_TIME"):
            yield domain, self.timers(domain)

    def timers(self, domain: str) -> list[Any]:
        """The committed timers."""
        tables = self.operator.timer_tables(TimeDomain[domain])
        return sorted((tuple(timer) for table in tables for timer in table.due(2**62)), key=repr)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()
        self.factory.close()


SIDES = {"odd": pa.schema([("n", pa.int64())])}
