"""From a size, a job's settings and the constants to what the job needs. Pure: arithmetic, no I/O.

Each number is linear in what it depends on, and none falls when the size grows. Where the answer depends on which rows
come (how many keys an interval touches), it is that of the most expensive rows: all keys differ as long as there are
enough. ``docs/sizing.md`` lists the things that this leaves out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparkstate import errors, keygroups
from sparkstate.settings import MIB, JobSettings
from sparkstate.sizing.constants import Backend, BackendConstants, Constants, Function, Values
from sparkstate.sizing.size import Size
from sparkstate.storage import sending
from sparkstate_spec import key_space

BUSY = 0.7
"""The share of a processor that rows may take. The rest is for checkpoints, merging files, and for catching up."""
EPOCH_SECONDS = 1.0
"""The length of an epoch, where the trigger does not say a longer one: a key that comes twice in it is read once."""
OVERLAYS = 1 / 6
"""The share of the managed memory that is for overlays (``backends.rocksdb.memory``)."""
UNMERGED = 8
"""Files of changed keys that a shard of RocksDB collects before it merges them: the default of level 0."""
ROW_BYTES = 2 * 8 + 4 + 2 * 8
"""Of a row of two longs with its key group on the way to its slot, and of two longs on the way back, in Arrow."""
MERGE_LIMIT = MIB
"""Canonical files up to this size share one object of their slot (``checkpoint.uploader.MERGE_LIMIT``)."""
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Processors:
    """Processors that are busy on average. ``spark``: driver, JVMs and Python workers."""

    spark: float
    slots: float
    slots_needed: int
    """So that rows keep no slot busier than ``BUSY``: a slot's function runs on one processor at a time."""

    @property
    def busy(self) -> float:
        """Of the whole job."""
        return self.spark + self.slots

    @property
    def to_give(self) -> int:
        """Processors of all containers together."""
        return math.ceil(self.busy / BUSY)


@dataclass(frozen=True, kw_only=True)
class State:
    """Bytes of the state. ``memory`` and ``disk`` are of one slot; None: the backend keeps none there."""

    memory: int | None
    memory_slots: int
    """Slots so that each one's state fits into the job's ``stateMemoryPerSlot``; 1 where it is on disk."""
    disk: int | None
    cached: float
    """The share of a slot's state that its managed memory holds; 1 for HashMap."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Bytes. ``first``: uploaded by the first one. ``each``: uploaded by each later one. ``whole``: everything that a
    later one names, which a restore downloads. ``stored``: in the bucket, with the one that is being stored."""

    first: int
    whole: int
    each: int
    stored: int


@dataclass(frozen=True, kw_only=True)
class Requests:
    """To the storage, in an hour, by how they are billed. ``get`` includes HEAD."""

    put: int
    get: int
    list: int
    delete: int


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Seconds from the loss of the driver to an up-to-date job, with no file found on the slots' disks.

    ``catch_up_s`` None: the job never catches up, because it has fewer processors or slots than the rows need.
    """

    restart_s: float
    restore_s: float
    catch_up_s: float | None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Everything that a job of this size needs."""

    size: Size
    function: Function
    values: Values
    processors: Processors
    state: State
    checkpoint: Checkpoint
    upload_bytes_per_s: int
    row_bytes_per_s: int
    requests: Requests
    recovery: Recovery

    @property
    def slots_needed(self) -> int:
        """Slots for rows and memory."""
        return max(self.processors.slots_needed, self.state.memory_slots)


def estimate(
    size: Size, job: JobSettings, function: Function, known: Constants, values: Values = "any"
) -> Estimate:
    """The needs of ``job`` for ``size``. ``function``: the kind of the job's most expensive operator.

    Raises :class:`errors.SpecInvalid` for a state backend of the user's own, which nobody has measured.
    """
    known = known.of_values(values)
    costs = known.backends[_measured(job)]
    state = _state(size, job, costs, known)
    processors = _processors(size, job, function, state, known)
    checkpoint = _checkpoint(size, job, costs, known)
    return Estimate(
        size=size,
        function=function,
        values=values,
        processors=processors,
        state=state,
        checkpoint=checkpoint,
        upload_bytes_per_s=math.ceil(checkpoint.each / job.checkpoint.interval_s),
        row_bytes_per_s=math.ceil(size.rows_per_s * ROW_BYTES),
        requests=_requests(size, job, checkpoint, known),
        recovery=_recovery(size, job, processors, checkpoint, known),
    )


def _measured(job: JobSettings) -> Backend:
    if job.backend.type == "custom":
        raise errors.SpecInvalid(
            "--size needs the costs of the state backend, and spec.stateBackend.type is custom; estimate with "
            "--set spec.stateBackend=null, which is HashMap, and measure the difference"
        )
    return job.backend.type


def given_processors(job: JobSettings) -> int:
    """Processors of the containers in which the slots run."""
    if job.deployment == "local":
        return job.cores
    return job.executors * int(job.spark_conf.get("spark.executor.cores", "1"))


def _state(size: Size, job: JobSettings, costs: BackendConstants, known: Constants) -> State:
    if costs.memory is not None:
        memory = size.keys * costs.memory.of(size.key_bytes)
        return State(
            memory=math.ceil(memory / job.slots),
            memory_slots=math.ceil(memory / max(job.backend.heap_state_bytes, 1)),
            disk=None,
            cached=1.0,
        )
    assert costs.disk is not None
    key = costs.disk.of(size.key_bytes) / job.slots
    live = size.keys * key
    # While files are merged, the merged file is there beside them.
    most = 2 * live + UNMERGED * _changed_keys(size, job) * key
    return State(
        memory=None,
        memory_slots=1,
        disk=math.ceil(most),
        cached=min(1.0, _cache(job) / live),
    )


def _cache(job: JobSettings) -> float:
    """Bytes of state that a slot holds in memory: what overlays and write buffers leave (docs/state-backends.md)."""
    managed = job.backend.fixed_memory_bytes or job.backend.managed_memory_bytes
    if managed is None:
        return math.inf
    return managed * (1 - OVERLAYS) * (1 - job.backend.write_buffer_ratio)


def _processors(
    size: Size, job: JobSettings, function: Function, state: State, known: Constants
) -> Processors:
    costs = known.backends[_measured(job)]
    epoch_s = max(EPOCH_SECONDS, job.trigger.processing_time_ms / 1000)
    touches = min(float(size.rows_per_s), size.keys / epoch_s)
    touch_us = costs.touch_us.value + (1 - state.cached) * known.miss_us.value
    stored = _stored_keys(size, job) / job.checkpoint.interval_s
    used_us = (
        size.rows_per_s * costs.slots_us[function].value
        + touches * touch_us
        + stored * costs.store_us.of(size.key_bytes)
    )
    slots = used_us / 1e6
    spark = size.rows_per_s * known.spark_us[function].value / 1e6
    return Processors(spark=spark, slots=slots, slots_needed=max(1, math.ceil(slots / BUSY)))


def _checkpoint(size: Size, job: JobSettings, costs: BackendConstants, known: Constants) -> Checkpoint:
    each_key = costs.checkpoint.of(size.key_bytes)
    first = size.keys * each_key
    whole = first
    if job.backend.type == "rocksdb":
        whole += UNMERGED * _changed_keys(size, job) * each_key
    each = _changed_keys(size, job) * each_key * known.upload.value if _incremental(job) else whole
    stored = whole + each * job.checkpoint.retained
    return Checkpoint(
        first=math.ceil(first), whole=math.ceil(whole), each=math.ceil(each), stored=math.ceil(stored)
    )


def _incremental(job: JobSettings) -> bool:
    return job.backend.type == "rocksdb" and job.backend.incremental


def _changed_keys(size: Size, job: JobSettings) -> float:
    """Keys that rows can have changed between two checkpoints."""
    return min(float(size.keys), size.rows_per_s * job.checkpoint.interval_s)


def _stored_keys(size: Size, job: JobSettings) -> float:
    """Keys whose values each checkpoint stores."""
    return _changed_keys(size, job) if _incremental(job) else float(size.keys)


def _requests(size: Size, job: JobSettings, checkpoint: Checkpoint, known: Constants) -> Requests:
    cost, checkpoints = known.requests, _HOUR_SECONDS / job.checkpoint.interval_s
    looks = _HOUR_SECONDS / (job.fence_timeout_s / 3)
    objects = _objects(size, job, checkpoint, cost.shard_objects.value)
    puts = cost.put.value + _puts(objects, checkpoint) * cost.object_put.value
    return Requests(
        put=math.ceil(checkpoints * puts),
        get=math.ceil(checkpoints * objects * cost.object_get.value + looks * cost.fence_get.value),
        list=math.ceil(checkpoints * cost.list.value + looks * cost.fence_list.value),
        delete=math.ceil(checkpoints * cost.delete.value),
    )


def _objects(size: Size, job: JobSettings, checkpoint: Checkpoint, per_shard: float) -> float:
    """Objects that one checkpoint stores."""
    key_groups = job.max_parallelism or key_space.default_max_parallelism(job.slots)
    shards = job.shards or keygroups.default_shards(job.slots, key_groups)
    if job.backend.type == "rocksdb":
        return min(float(shards), _changed_keys(size, job)) * per_shard
    return job.slots if checkpoint.each / shards <= MERGE_LIMIT else shards


def _puts(objects: float, checkpoint: Checkpoint) -> float:
    """Requests that store them. A large object goes in parts: one request begins it, one ends it."""
    if checkpoint.each / objects <= sending.PART_BYTES:
        return objects
    return 2 * objects + checkpoint.each / sending.PART_BYTES


def _recovery(
    size: Size, job: JobSettings, processors: Processors, checkpoint: Checkpoint, known: Constants
) -> Recovery:
    restart = known.restart_s[job.deployment].value
    keys = size.keys / job.slots
    by_processor = keys * known.backends[_measured(job)].restore_us.of(size.key_bytes) / 1e6
    by_bytes = checkpoint.whole / job.slots / MIB / known.restore_mib_per_s.value
    restore = max(by_processor, by_bytes)
    used = max(processors.busy / given_processors(job), processors.slots / job.slots)
    behind = job.checkpoint.interval_s + restart + restore
    catch_up = behind * used / (1 - used) if used < 1 else None
    return Recovery(restart_s=restart, restore_s=restore, catch_up_s=catch_up)
