"""The spec of a StatefulSparkJob."""

from __future__ import annotations

from typing import Literal

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.entry import (
    S3,
    ConfigMapKeyRef,
    LocalObjectRef,
    LocalStorage,
    PodTemplate,
    Resources,
)
from sparkstate_operator.model.progress import (
    Checkpointing,
    Deletion,
    Restart,
    RestoreSource,
    Savepoints,
    Trigger,
)
from sparkstate_operator.model.state import StateBackend
from sparkstate_operator.model.values import (
    Duration,
    LongText,
    ObjectName,
    Quantity,
    Text,
)
from sparkstate_spec import built_in, values

IGNORE = ChangeKind.IGNORE
SCALE = ChangeKind.SCALE
UPGRADE = ChangeKind.UPGRADE
SAVEPOINT = ChangeKind.SAVEPOINT
IMMUTABLE = ChangeKind.IMMUTABLE


class StatefulSparkJobSpec(Model):
    """What the user asks for. Fields without a schema default: job, then Helm value, then built-in."""

    image: Text | None = spec_field(
        "Image with the job's code and the engine. Helm value: defaults.image.", UPGRADE
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = spec_field(
        "As in a container. Built-in: Kubernetes' own rule.", UPGRADE
    )
    image_pull_secrets: tuple[LocalObjectRef, ...] | None = spec_field(
        "Secrets for pulling the image.", UPGRADE, strict=False, max_length=16
    )
    service_account_name: ObjectName | None = spec_field(
        "ServiceAccount of driver and executors; its default credentials chain reaches the storage where "
        "s3.secretRef "
        "is absent. Built-in: one made for the job.",
        UPGRADE,
    )
    python_file: Text | None = spec_field(
        "Python file with the job's function: a path in the image, for the runner relative to the "
        "manifest. One of "
        "pythonFile, module, configMapRef.",
        UPGRADE,
    )
    module: str | None = spec_field(
        "Importable module with the job's function, e.g. shop.orders.",
        UPGRADE,
        pattern=values.MODULE,
        max_length=256,
    )
    config_map_ref: ConfigMapKeyRef | None = spec_field(
        "Script in a ConfigMap, for development; not for the runner.", UPGRADE
    )
    function: str | None = spec_field(
        "The function: def job(spark, params). Built-in: {built_in}.",
        UPGRADE,
        pattern=values.IDENTIFIER,
        max_length=128,
        path="function",
    )
    params: dict[str, LongText] | None = spec_field(
        "Arguments for the function, as strings. No keys or passwords.", UPGRADE, max_length=200
    )
    spark_conf: dict[str, LongText] | None = spec_field(
        "Spark configuration. No keys or passwords.", UPGRADE, max_length=300
    )
    configuration: dict[str, Text] | None = spec_field(
        "Flink's configuration keys, old or new spelling, as strings; each means the field whose "
        "description names it, "
        "and may not stand beside it.",
        UPGRADE,
        max_length=100,
    )
    deployment: Literal["local", "cluster"] = spec_field(
        "local: one pod (or process) with local Spark. cluster: a driver pod and executor pods.",
        UPGRADE,
        default=built_in.value("deployment"),
    )
    slots: int | None = spec_field(
        "Parallelism: processes that hold state. kubectl scale changes it; at most the job's shards. "
        "Built-in: {built_in}.",
        SCALE,
        path="slots",
        ge=1,
        le=32768,
    )
    slots_per_executor: int | None = spec_field(
        "Slots in one executor pod (deployment cluster). Built-in: {built_in}.",
        UPGRADE,
        path="slotsPerExecutor",
        ge=1,
        le=1024,
    )
    max_parallelism: int | None = spec_field(
        "Number of key groups, fixed when the job is created. Built-in: Flink's rule, 128 to 32768.",
        IMMUTABLE,
        path="maxParallelism",
        ge=1,
        le=32768,
    )
    shards: int | None = spec_field(
        "Number of stores that the key groups are spread over, fixed when the job is created; bounds "
        "slots. Built-in: "
        "four per slot, at least 16.",
        IMMUTABLE,
        ge=1,
        le=32768,
    )
    driver: Resources | None = spec_field(
        "The driver's cores and heap (deployment local: all of Spark's).", UPGRADE
    )
    executor: Resources | None = spec_field("An executor's cores and heap (deployment cluster).", UPGRADE)
    managed_memory_per_slot: Quantity | None = spec_field(
        "Memory that a slot's backend may use for caches and write buffers, e.g. 256Mi. Built-in: {built_in}.",
        UPGRADE,
        path="managedMemoryPerSlot",
    )
    fixed_memory_per_slot: Quantity | None = spec_field(
        "As managedMemoryPerSlot, for this job alone; replaces it.",
        UPGRADE,
        path="fixedMemoryPerSlot",
    )
    managed_memory: bool | None = spec_field(
        "false: the backend's options decide, and nothing bounds the sum. For experts. Built-in: {built_in}.",
        UPGRADE,
        path="managedMemory",
    )
    state_memory_per_slot: Quantity | None = spec_field(
        "With state backend hashmap: memory that a slot's state itself may take, beside managed memory. "
        "Enters the "
        "memory sum. Built-in: {built_in}.",
        UPGRADE,
        path="stateMemoryPerSlot",
    )
    local_storage: LocalStorage | None = spec_field("The working volume.", UPGRADE)
    state_backend: StateBackend | None = spec_field("Where working state lives.", UPGRADE)
    checkpointing: Checkpointing | None = spec_field("When checkpoints are taken and where they go.", UPGRADE)
    savepoints: Savepoints | None = spec_field("Periodic savepoints and their history.", IGNORE)
    trigger: Trigger | None = spec_field("When epochs start.", UPGRADE)
    restart: Restart | None = spec_field("What follows a failure.", UPGRADE)
    fence_timeout: Duration | None = spec_field(
        "A driver that could not prove for this long that it is the only one starts no epoch. Built-in: {built_in}.",
        UPGRADE,
        path="fenceTimeout",
    )
    sink_timeout: Duration | None = spec_field(
        "A longer call of a sink function fails the epoch. Built-in: {built_in}.", UPGRADE, path="sinkTimeout"
    )
    upgrade_mode: Literal["stateless", "last-state", "savepoint"] = spec_field(
        "How a changed spec takes over: from a savepoint taken for it, from the last checkpoint, or "
        "without state.",
        IGNORE,
        default=built_in.value("upgradeMode"),
    )
    state: Literal["running", "suspended"] = spec_field(
        "suspended: stopped with its state kept, by the upgrade mode.",
        UPGRADE,
        default=built_in.value("state"),
    )
    restart_nonce: int | None = spec_field(
        "Any other number starts a new attempt of the same spec. Built-in: none.",
        UPGRADE,
        ge=0,
        le=2**31 - 1,
    )
    restore_from: RestoreSource | None = spec_field(
        "The state to start from, where the job has no completed checkpoint of its own, or when changed.",
        SAVEPOINT,
    )
    start_empty: bool | None = spec_field(
        "Start without state although there is some. Void once a checkpoint has completed. Built-in: {built_in}.",
        SAVEPOINT,
        path="startEmpty",
    )
    allow_non_restored_state: bool | None = spec_field(
        "Drop restored state that no operator of the job asks for. Built-in: {built_in}, an error.",
        SAVEPOINT,
        path="allowNonRestoredState",
    )
    deletion: Deletion | None = spec_field("What happens to state when the job is deleted.", IGNORE)
    s3: S3 | None = spec_field("How S3 is reached.", UPGRADE)
    ui: bool | None = spec_field("Spark's own web UI. Built-in: {built_in}.", UPGRADE, path="ui")
    metrics_port: int | None = spec_field(
        "A port of the driver that answers GET /metrics without a token, and nothing else: for Prometheus. The "
        "container's port is named metrics; Flink's own number is 9249. Built-in: none.",
        UPGRADE,
        path="metricsPort",
        ge=1,
        le=65535,
    )
    driver_template: PodTemplate | None = spec_field("Pod template of the driver.", UPGRADE)
    executor_template: PodTemplate | None = spec_field("Pod template of the executors.", UPGRADE)
