"""The job of ``totals.py``, configured by its code alone: backend, checkpoints and their place."""

from __future__ import annotations

from typing import Any

import totals

from sparkstate import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    StreamExecutionEnvironment,
)


def job(spark: Any, params: dict[str, str]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    rocksdb = params["backend"] == "rocksdb"
    env.set_state_backend(EmbeddedRocksDBStateBackend(True) if rocksdb else HashMapStateBackend())
    env.enable_checkpointing(300, CheckpointingMode.EXACTLY_ONCE)
    config = env.get_checkpoint_config()
    config.set_checkpoint_storage(FileSystemCheckpointStorage(params["checkpoints"], 0))
    config.set_min_pause_between_checkpoints(50).set_tolerable_checkpoint_failure_number(2)
    config.enable_unaligned_checkpoints()
    env.set_default_savepoint_directory(params["savepoints"])
    totals.declare(totals.source(spark, params), params)
