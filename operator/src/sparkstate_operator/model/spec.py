"""The spec of a StatefulSparkJob."""

from __future__ import annotations

from typing import Any, Literal

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
    RestoreSource,
    Savepoints,
    Trigger,
)
from sparkstate_operator.model.restart import Restart
from sparkstate_operator.model.state import StateBackend
from sparkstate_operator.model.values import (
    Duration,
    LongText,
    ObjectName,
    Quantity,
    Text,
)
from sparkstate_spec import built_in, values
from sparkstate_spec.configuration import MOST_KEYS

IGNORE = ChangeKind.IGNORE
SCALE = ChangeKind.SCALE
UPGRADE = ChangeKind.UPGRADE
SAVEPOINT = ChangeKind.SAVEPOINT
IMMUTABLE = ChangeKind.IMMUTABLE


class StatefulSparkJobSpec(Model):
    """The desired job. For a field without a schema default, the job's value wins over the Helm value, and the Helm
    value over the built-in one."""

    image: Text | None = spec_field(
        "Image with the job's code and the engine. Helm value: defaults.image.", UPGRADE
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = spec_field(
        "Pull policy of the image, as in a container. Built-in: Kubernetes' own rule.", UPGRADE
    )
    image_pull_secrets: tuple[LocalObjectRef, ...] | None = spec_field(
        "Secrets for pulling the image.", UPGRADE, strict=False, max_length=16
    )
    service_account_name: ObjectName | None = spec_field(
        "ServiceAccount of driver and executors; without s3.secretRef its credentials open the storage. Built-in: the "
        "operator makes one for the job.",
        UPGRADE,
    )
    python_file: Text | None = spec_field(
        "Python file with the job's function: a path in the image, or for the runner a path relative to the manifest. "
        "Give one of pythonFile, module, configMapRef.",
        UPGRADE,
    )
    module: str | None = spec_field(
        "Importable module with the job's function, e.g. shop.orders.",
        UPGRADE,
        pattern=values.MODULE,
        max_length=256,
    )
    config_map_ref: ConfigMapKeyRef | None = spec_field(
        "Script in a ConfigMap, for development; the runner does not support it.", UPGRADE
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
        "Flink's configuration keys, in their old or new spelling, as strings. Each key means the field whose "
        "description names it; a field that is given counts more than its key. Keys that can mean nothing here have no "
        "effect (sparkstate explain answers each); others are refused by name.",
        UPGRADE,
        max_length=MOST_KEYS,
    )
    flink_configuration: dict[str, Any] | None = spec_field(
        "configuration as Flink's Kubernetes operator spells it: values may be numbers, true or false, and keys may be "
        "written as sections. The operator judges its keys, and the API server does not. Not together with "
        "configuration.",
        UPGRADE,
        max_length=MOST_KEYS,
    )
    deployment: Literal["local", "cluster"] = spec_field(
        "local: one pod (or process) with local Spark. cluster: a driver pod and executor pods.",
        UPGRADE,
        default=built_in.value("deployment"),
    )
    slots: int | None = spec_field(
        "Parallelism: the number of processes that hold state. kubectl scale changes it; at most the number of shards. "
        "Built-in: {built_in}.",
        SCALE,
        path="slots",
        ge=1,
        le=32768,
    )
    slots_per_executor: int | None = spec_field(
        "Slots in each executor pod (deployment cluster). Built-in: {built_in}.",
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
        "Number of stores over which the key groups are spread, fixed when the job is created; slots cannot exceed it. "
        "Built-in: four per slot, at least 16.",
        IMMUTABLE,
        ge=1,
        le=32768,
    )
    driver: Resources | None = spec_field(
        "The driver's cores and heap (with deployment local, those of all of Spark).", UPGRADE
    )
    executor: Resources | None = spec_field("Cores and heap of each executor (deployment cluster).", UPGRADE)
    managed_memory_per_slot: Quantity | None = spec_field(
        "Memory that a slot's backend may use for caches and write buffers, e.g. 256Mi. Built-in: {built_in}.",
        UPGRADE,
        path="managedMemoryPerSlot",
    )
    fixed_memory_per_slot: Quantity | None = spec_field(
        "Like managedMemoryPerSlot, but only for this job; it replaces that value.",
        UPGRADE,
        path="fixedMemoryPerSlot",
    )
    managed_memory: bool | None = spec_field(
        "false: the backend's own options decide, and nothing bounds their sum. For experts. Built-in: {built_in}.",
        UPGRADE,
        path="managedMemory",
    )
    state_memory_per_slot: Quantity | None = spec_field(
        "With state backend hashmap or custom: memory for a slot's state itself, on top of managed memory. It is part "
        "of the memory sum. Built-in: {built_in}.",
        UPGRADE,
        path="stateMemoryPerSlot",
    )
    operator_state_memory_per_slot: Quantity | None = spec_field(
        "Memory that the operator state of a slot may take: lists and broadcast maps in its Python heap. A job that "
        "needs more ends with OperatorStateTooLarge; its checkpoints keep the state. It is part of the memory sum. "
        "Built-in: {built_in}.",
        UPGRADE,
        path="operatorStateMemoryPerSlot",
    )
    local_storage: LocalStorage | None = spec_field("The working volume of each pod.", UPGRADE)
    state_backend: StateBackend | None = spec_field("Where working state is kept.", UPGRADE)
    checkpointing: Checkpointing | None = spec_field("When checkpoints are taken and where they go.", UPGRADE)
    savepoints: Savepoints | None = spec_field("Periodic savepoints and their history.", IGNORE)
    trigger: Trigger | None = spec_field("When epochs start.", UPGRADE)
    restart: Restart | None = spec_field("The reaction to a failure.", UPGRADE)
    fence_timeout: Duration | None = spec_field(
        "A driver that has not been able to prove for this long that it is the only one starts no epoch. Built-in: "
        "{built_in}.",
        UPGRADE,
        path="fenceTimeout",
    )
    sink_timeout: Duration | None = spec_field(
        "A call of a sink function that takes longer fails the epoch. Built-in: {built_in}.",
        UPGRADE,
        path="sinkTimeout",
    )
    upgrade_mode: Literal["stateless", "last-state", "savepoint"] = spec_field(
        "The state from which the next attempt starts when the spec changes. savepoint: a savepoint taken for the "
        "change. last-state: the last checkpoint. stateless: no state.",
        IGNORE,
        default=built_in.value("upgradeMode"),
    )
    upgrade_check: bool | None = spec_field(
        "Before a change stops a running job, ask the new version in a pod of its own whether it takes up the job's "
        "state; if it does not, the old version runs on. Built-in: {built_in}.",
        IGNORE,
        path="upgradeCheck",
    )
    state: Literal["running", "suspended"] = spec_field(
        "suspended: the job is stopped as its upgrade mode says, and its state is kept.",
        UPGRADE,
        default=built_in.value("state"),
    )
    restart_nonce: int | None = spec_field(
        "Change this number to start a new attempt of the same spec. Built-in: none.",
        UPGRADE,
        ge=0,
        le=2**31 - 1,
    )
    restore_from: RestoreSource | None = spec_field(
        "The state to start from, if the job has no completed checkpoint of its own or this field changes.",
        SAVEPOINT,
    )
    start_empty: bool | None = spec_field(
        "Start without state although there is some. Without effect once a checkpoint has completed. Built-in: "
        "{built_in}.",
        SAVEPOINT,
        path="startEmpty",
    )
    allow_non_restored_state: bool | None = spec_field(
        "Drop restored state that no operator of the job declares; otherwise it is an error. Built-in: {built_in}.",
        SAVEPOINT,
        path="allowNonRestoredState",
    )
    deletion: Deletion | None = spec_field("The fate of state when the job is deleted.", IGNORE)
    ttl_seconds_after_finished: int | None = spec_field(
        "This many seconds after the job has finished, the operator deletes the object, and deletion.policy decides "
        "about its state. As in a Kubernetes Job, but a job that has failed stays. Built-in: none, it stays.",
        IGNORE,
        path="ttlSecondsAfterFinished",
        ge=0,
        le=2**31 - 1,
    )
    progress_deadline_seconds: int | None = spec_field(
        "If the job is not ready for longer than this while it starts, restores, restarts or is upgraded, its "
        "conditions say so (ProgressDeadlineExceeded), as those of a Deployment. Nothing is stopped. Give more than "
        "the longest restore takes. Built-in: none.",
        IGNORE,
        path="progressDeadlineSeconds",
        ge=1,
        le=2**31 - 1,
    )
    s3: S3 | None = spec_field("How to reach S3.", UPGRADE)
    ui: bool | None = spec_field("Run Spark's own web UI. Built-in: {built_in}.", UPGRADE, path="ui")
    metrics_port: int | None = spec_field(
        "A port of the driver for Prometheus: it answers GET /metrics without a token, and nothing else. The "
        "container's port is named metrics; Flink itself uses 9249. Built-in: none.",
        UPGRADE,
        path="metricsPort",
        ge=1,
        le=65535,
    )
    driver_template: PodTemplate | None = spec_field("Pod template of the driver.", UPGRADE)
    executor_template: PodTemplate | None = spec_field("Pod template of the executors.", UPGRADE)
