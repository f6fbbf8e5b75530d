"""A job's effective settings: frozen, resolved, without secrets. Built by ``manifest.resolve``, read by everyone else.

Units stand last in the names. Bytes are integers, durations are seconds (float) or milliseconds where the name says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sparkstate_spec import built_in, executors, units

MIB = units.MIB
CLUSTER_VARIABLE = "SPARKSTATE_CLUSTER"
"""Environment variable with the cluster's name in the storage."""


@dataclass(frozen=True, kw_only=True)
class S3Settings:
    """How S3 is reached. Credentials are never here: they come from the default chain of the process."""

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = built_in.value("s3.pathStyle")


@dataclass(frozen=True, kw_only=True)
class StateBackendSettings:
    """``type`` is ``hashmap``, ``rocksdb`` or ``custom``. ``options`` are RocksDB's configurable keys (Flink's
    spelling), or those of the user's own backend."""

    type: Literal["hashmap", "rocksdb", "custom"] = built_in.value("stateBackend.type")
    class_name: str | None = None
    """``module:Class`` of the user's own backend, with type ``custom``."""
    incremental: bool = built_in.value("stateBackend.incremental")
    predefined_options: str = built_in.value("stateBackend.predefinedOptions")
    options: dict[str, str] = field(default_factory=dict)
    options_factory: str | None = None
    """``module:Class`` of the user's RocksDBOptionsFactory."""
    timer_service: Literal["heap", "rocksdb"] = built_in.value("stateBackend.timerService")
    storage_paths: tuple[str, ...] = ()
    local_recovery: bool = built_in.value("stateBackend.localRecovery")
    """Restore from files that an earlier slot left on the same disk, where their checksums are right."""
    transfer_threads: int = built_in.value("stateBackend.transferThreads")
    managed_memory_bytes: int | None = built_in.plain("managedMemoryPerSlot")
    """Per slot; None = unmanaged."""
    fixed_memory_bytes: int | None = None
    """Per slot, instead of managed."""
    heap_state_bytes: int = built_in.plain("stateMemoryPerSlot")
    """Per slot: what the state itself may take beside managed memory, with ``hashmap`` and ``custom``; enters the sum.
    """
    operator_state_bytes: int = built_in.plain("operatorStateMemoryPerSlot")
    """Per slot: what operator state may take on the heap of the slot's Python; enters the sum."""
    write_buffer_ratio: float = built_in.value("stateBackend.writeBufferRatio")
    high_prio_pool_ratio: float = built_in.value("stateBackend.highPrioPoolRatio")
    native_metrics: tuple[str, ...] = ()
    """Flink's names of the native metrics that are on, e.g. ``estimate-num-keys``."""

    @property
    def state_bytes(self) -> int:
        """Per slot: what state may take, on the heap or in the backend; 0 = nothing says it."""
        if self.type == "hashmap":
            return self.heap_state_bytes
        return self.fixed_memory_bytes or self.managed_memory_bytes or 0


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """When checkpoints are taken and where they go."""

    storage: str = ""
    """URL of the checkpoint storage: ``file:///…``, a path, ``s3://bucket/prefix``, or ``memory://driver``."""
    max_state_bytes: int = built_in.plain("checkpointing.maxStateSize")
    """Per state and slot, where checkpoints lie in the driver's memory."""
    interval_s: float = built_in.plain("checkpointing.interval")
    timeout_s: float = built_in.plain("checkpointing.timeout")
    min_pause_s: float = built_in.plain("checkpointing.minPause")
    tolerable_failures: int = built_in.value("checkpointing.tolerableFailures")
    retained: int = built_in.value("checkpointing.retained")
    inline_threshold_bytes: int = built_in.plain("checkpointing.inlineThreshold")
    write_buffer_bytes: int = built_in.plain("checkpointing.writeBufferSize")
    max_held_bytes: int = built_in.plain("checkpointing.maxHeldOutput")
    """Per slot: output of file sinks that waits for a checkpoint. At half of it a checkpoint is due; at all of it the
    job takes nothing in until one has completed."""
    max_time_without_s: float = built_in.plain("checkpointing.maxTimeWithoutCheckpoint")
    """While a storage is away, the job takes nothing in when changes have waited for a checkpoint that long."""


SavepointFormat = Literal["canonical", "native"]
"""Of a savepoint's state, by Flink's names: one form that every state backend reads, or the backend's own files."""


@dataclass(frozen=True, kw_only=True)
class SavepointSettings:
    """Periodic savepoints; ``schedule`` is a cron line, ``interval_s`` a period; both None = only on request."""

    storage: str | None = None
    """Default: ``savepoints/`` under the checkpoint storage."""
    interval_s: float | None = None
    schedule: str | None = None
    max_age_s: float | None = None
    max_count: int | None = None
    format_type: Literal["canonical", "native"] = built_in.value("savepoints.formatType")
    """Of the periodic ones."""
    on_stop: bool = built_in.value("savepoints.onStop")
    """Take a savepoint when the job is stopped from outside (Ctrl-C, SIGTERM)."""


@dataclass(frozen=True, kw_only=True)
class RestartSettings:
    """Flink's restart strategies by their names and defaults."""

    strategy: Literal["none", "fixed-delay", "exponential-delay", "failure-rate"] = built_in.value(
        "restart.strategy"
    )
    attempts: int = built_in.value("restart.fixedDelay.attempts")
    delay_s: float = built_in.plain("restart.fixedDelay.delay")
    initial_backoff_s: float = built_in.plain("restart.exponentialDelay.initialBackoff")
    max_backoff_s: float = built_in.plain("restart.exponentialDelay.maxBackoff")
    backoff_multiplier: float = built_in.value("restart.exponentialDelay.backoffMultiplier")
    reset_after_s: float = built_in.plain("restart.exponentialDelay.resetBackoffThreshold")
    jitter: float = built_in.value("restart.exponentialDelay.jitterFactor")
    max_attempts: int | None = None
    max_failures_per_interval: int = built_in.value("restart.failureRate.maxFailuresPerInterval")
    failure_rate_interval_s: float = built_in.plain("restart.failureRate.failureRateInterval")


@dataclass(frozen=True, kw_only=True)
class TriggerSettings:
    """When epochs start. ``available_now``: work through what is there, then end with watermark +∞ (bounded input)."""

    processing_time_ms: int = units.duration_ms(built_in.value("trigger.processingTime"))
    available_now: bool = built_in.value("trigger.availableNow")


@dataclass(frozen=True, kw_only=True)
class EntryPoint:
    """``python_file`` with function ``function``, or ``module:function``; ``params`` go to ``job(spark, params)``."""

    python_file: str | None = None
    module: str | None = None
    function: str = built_in.value("function")
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PodSettings:
    """The pod that a driver runs in, as Kubernetes tells it by the downward API."""

    name: str
    namespace: str
    ip: str
    job_uid: str
    attempt: int
    cluster: str = "default"
    """The name of the cluster in the storage (``by-name/<cluster>/…``)."""
    start_since: int = 0
    """The attempt that ``startEmpty`` (or ``start_fresh``) was given to; 0: this one. It takes effect only once."""
    start_fresh: bool = False
    """Begin a new lineage from ``restore_from``, although the job's name has one."""
    grace_s: float = 30.0
    """``terminationGracePeriodSeconds``: between SIGTERM and SIGKILL."""
    predecessor_s: float = 0.0
    """An earlier attempt's driver may still be ending. After this time it can do no more harm; 0: there is none."""
    uid: str = ""
    """``metadata.uid``, by which the executors' pods belong to this one; empty: Spark has to ask for it."""


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """Everything the driver needs to run one job."""

    name: str
    namespace: str = "default"
    cluster: str = "local"
    entry: EntryPoint
    deployment: Literal["local", "cluster"] = built_in.value("deployment")
    slots: int = built_in.value("slots")
    max_parallelism: int | None = None
    shards: int | None = None
    cores: int = built_in.value("driver.cores")
    jvm_memory_bytes: int = built_in.plain("driver.memory")
    slots_per_executor: int = built_in.value("slotsPerExecutor")
    spark_conf: dict[str, str] = field(default_factory=dict)
    backend: StateBackendSettings = field(default_factory=StateBackendSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    savepoint: SavepointSettings = field(default_factory=SavepointSettings)
    restart: RestartSettings = field(default_factory=RestartSettings)
    trigger: TriggerSettings = field(default_factory=TriggerSettings)
    s3: S3Settings = field(default_factory=S3Settings)
    restore_from: str | None = None
    """URL of a savepoint or checkpoint folder, or ``latest``; used when the lineage has no completed checkpoint."""
    start_empty: bool = built_in.value("startEmpty")
    allow_non_restored_state: bool = built_in.value("allowNonRestoredState")
    fence_timeout_s: float = built_in.plain("fenceTimeout")
    sink_timeout_s: float = built_in.plain("sinkTimeout")
    ui: bool = built_in.value("ui")
    """Spark's own UI."""
    metrics_port: int | None = None
    """Of the driver, where ``/metrics`` answers without a token; None: nowhere."""
    pod: PodSettings | None = None
    """Set in a driver that an operator has started."""
    known_lineage: str = ""
    """The lineage that earlier attempts had, as far as the driver's starter knows: without it the storage is away."""
    start_since: int = 0
    """Outside of clusters: the attempt that ``startEmpty`` was given to; 0: this one. It takes effect only once."""
    work_dir: str = ""
    """Local working directory (slots' stores, query position, sockets); emptied at the driver's start, except for the
    state that earlier slots left."""

    @property
    def executors(self) -> int:
        """How many executor pods a job with ``deployment: cluster`` has."""
        return executors.count(self.slots, self.slots_per_executor)
