"""sparkstate: Flink-style keyed state, checkpoints and savepoints for PySpark Structured Streaming.

This is the façade; names are loaded when they are first used, so that ``import sparkstate`` needs neither
PySpark nor RocksDB.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparkstate.batches.functions import KeyedBatchFunction, RowError
    from sparkstate.checkpoint_storage import FileSystemCheckpointStorage, JobManagerCheckpointStorage
    from sparkstate.checkpointed import CheckpointedFunction, CheckpointListener
    from sparkstate.connected_functions import (
        BroadcastProcessFunction,
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
    )
    from sparkstate.durations import Time
    from sparkstate.functions import (
        AggregateFunction,
        KeyedProcessFunction,
        OutputTag,
        ReduceFunction,
        RuntimeContext,
        TimeDomain,
        TimerService,
    )
    from sparkstate.keyed_functions.interval_join import ProcessJoinFunction
    from sparkstate.keyed_functions.per_record import FilterFunction, FlatMapFunction, MapFunction
    from sparkstate.old_state_backends import FsStateBackend, MemoryStateBackend, RocksDBStateBackend
    from sparkstate.serde.types import Types
    from sparkstate.sinks.file_sink import FileSink
    from sparkstate.spark.checkpoint_config import (
        CheckpointConfig,
        CheckpointingMode,
        ExternalizedCheckpointCleanup,
        ExternalizedCheckpointRetention,
    )
    from sparkstate.spark.configuration import Configuration
    from sparkstate.spark.environment import StreamExecutionEnvironment
    from sparkstate.spark.stream import broadcast, keyed, set_state_backend, stream
    from sparkstate.state.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from sparkstate.state.ttl import StateTtlConfig
    from sparkstate.state_backend import CustomStateBackend, EmbeddedRocksDBStateBackend, HashMapStateBackend

_HOMES = {
    "AggregateFunction": "sparkstate.functions",
    "AggregatingStateDescriptor": "sparkstate.state.descriptors",
    "BroadcastProcessFunction": "sparkstate.connected_functions",
    "CheckpointListener": "sparkstate.checkpointed",
    "CheckpointedFunction": "sparkstate.checkpointed",
    "CustomStateBackend": "sparkstate.state_backend",
    "EmbeddedRocksDBStateBackend": "sparkstate.state_backend",
    "FileSink": "sparkstate.sinks.file_sink",
    "FilterFunction": "sparkstate.keyed_functions.per_record",
    "FlatMapFunction": "sparkstate.keyed_functions.per_record",
    "HashMapStateBackend": "sparkstate.state_backend",
    "KeyedBatchFunction": "sparkstate.batches.functions",
    "KeyedCoProcessFunction": "sparkstate.connected_functions",
    "KeyedBroadcastProcessFunction": "sparkstate.connected_functions",
    "KeyedProcessFunction": "sparkstate.functions",
    "ListStateDescriptor": "sparkstate.state.descriptors",
    "MapFunction": "sparkstate.keyed_functions.per_record",
    "MapStateDescriptor": "sparkstate.state.descriptors",
    "OutputTag": "sparkstate.functions",
    "ProcessJoinFunction": "sparkstate.keyed_functions.interval_join",
    "ReduceFunction": "sparkstate.functions",
    "ReducingStateDescriptor": "sparkstate.state.descriptors",
    "RowError": "sparkstate.batches.functions",
    "RuntimeContext": "sparkstate.functions",
    "StateTtlConfig": "sparkstate.state.ttl",
    "Time": "sparkstate.durations",
    "TimeDomain": "sparkstate.functions",
    "TimerService": "sparkstate.functions",
    "Types": "sparkstate.serde.types",
    "ValueStateDescriptor": "sparkstate.state.descriptors",
    "CheckpointConfig": "sparkstate.spark.checkpoint_config",
    "CheckpointingMode": "sparkstate.spark.checkpoint_config",
    "ExternalizedCheckpointCleanup": "sparkstate.spark.checkpoint_config",
    "ExternalizedCheckpointRetention": "sparkstate.spark.checkpoint_config",
    "Configuration": "sparkstate.spark.configuration",
    "StreamExecutionEnvironment": "sparkstate.spark.environment",
    "FsStateBackend": "sparkstate.old_state_backends",
    "MemoryStateBackend": "sparkstate.old_state_backends",
    "RocksDBStateBackend": "sparkstate.old_state_backends",
    "FileSystemCheckpointStorage": "sparkstate.checkpoint_storage",
    "JobManagerCheckpointStorage": "sparkstate.checkpoint_storage",
    "broadcast": "sparkstate.spark.stream",
    "keyed": "sparkstate.spark.stream",
    "set_state_backend": "sparkstate.spark.stream",
    "stream": "sparkstate.spark.stream",
}

__all__ = [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "BroadcastProcessFunction",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointingMode",
    "Configuration",
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSink",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeyedBatchFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "MemoryStateBackend",
    "OutputTag",
    "ProcessJoinFunction",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "RocksDBStateBackend",
    "RowError",
    "RuntimeContext",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "Time",
    "TimeDomain",
    "TimerService",
    "Types",
    "ValueStateDescriptor",
    "broadcast",
    "keyed",
    "set_state_backend",
    "stream",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'sparkstate' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
