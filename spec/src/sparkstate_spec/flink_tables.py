"""Flink's configuration keys that mean no field of their own: RocksDB's options and metrics, and sentences for the
others. The values that a key may have."""

from __future__ import annotations

from sparkstate_spec.fields import BY_KEY, BY_PATH, ROCKSDB, C
from sparkstate_spec.values import LATER_SCHEMES

METRICS = f"{ROCKSDB}.metrics"

NATIVE_METRICS = (
    "num-immutable-mem-table", "mem-table-flush-pending", "compaction-pending", "background-errors",
    "cur-size-active-mem-table", "cur-size-all-mem-tables", "size-all-mem-tables",
    "num-entries-active-mem-table", "num-entries-imm-mem-tables", "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables", "estimate-num-keys", "estimate-table-readers-mem", "num-snapshots",
    "num-live-versions", "estimate-live-data-size", "min-log-number-to-keep",
    "total-sst-files-size", "live-sst-files-size",
    "estimate-pending-compaction-bytes", "num-running-compactions", "num-running-flushes",
    "actual-delayed-write-rate", "is-write-stopped", "block-cache-capacity", "block-cache-usage",
    "block-cache-pinned-usage", "num-files-at-level", "block-cache-hit", "block-cache-miss",
    "bloom-filter-useful", "bloom-filter-full-positive", "bloom-filter-full-true-positive",
    "bytes-read", "bytes-written", "iter-bytes-read", "compaction-read-bytes",
    "compaction-write-bytes", "stall-micros",
)  # fmt: skip
"""Flink's names: 27 properties, the files per level, 11 tickers."""

ROCKSDB_OPTIONS = (
    "thread.num", "files.open", "log.level", "log.max-file-size", "log.file-num", "log.dir",
    "compaction.style", "compaction.level.use-dynamic-size", "compaction.level.target-file-size-base",
    "compaction.level.max-size-level-base", "compression.per.level", "writebuffer.size",
    "writebuffer.count", "writebuffer.number-to-merge", "block.blocksize", "block.metadata-blocksize",
    "block.cache-size", "write-batch-size", "use-bloom-filter", "bloom-filter.bits-per-key",
    "bloom-filter.block-based-mode", "timer-service.cache-size", "memory.partitioned-index-filters",
    "compaction.filter.query-time-after-num-entries", "compaction.filter.periodic-compaction-time",
    "restore-overlap-fraction-threshold", "use-ingest-db-restore-mode",
    "incremental-restore-async-compact-after-rescale", "rescaling.use-delete-files-in-range",
    "metrics.column-family-as-variable",
)  # fmt: skip
"""Flink's configurable RocksDB keys, without their common prefix."""
OPTION_KEYS = tuple(f"{ROCKSDB}.{name}" for name in ROCKSDB_OPTIONS)

VARIABLE = f"{METRICS}.column-family-as-variable"
"""An option that begins as the metrics do."""
SECRETS = ("s3.access", "s3.secret")
"""How Flink's keys for keys of S3 begin."""

NOT_APPLICABLE = (
    (
        (f"{C}.unaligned", f"{C}.force-unaligned", f"{C}.max-aligned-checkpoint-size",
         f"{C}.aligned-checkpoint-timeout", f"{C}.alignment-timeout"),
        "unaligned checkpoints and alignment timeouts do not apply: the end of an epoch is the barrier, so there is "
        "nothing to align",
    ),
    (
        ("taskmanager.network.",),
        "network buffers and their debloating do not apply: Spark moves data in epochs of bounded size",
    ),
    (
        ("taskmanager.memory.", "jobmanager.memory."),
        "Flink's memory model does not apply: use driver.memory, executor.memory and managedMemoryPerSlot",
    ),
    (
        ("execution.buffer-timeout", f"{C}.checkpoints-after-tasks-finish", f"{C}.during-recovery",
         f"{C}.interval-during-backlog"),
        "does not apply to epochs: a checkpoint is taken between two of them",
    ),
    (
        (f"{C}.externalized-",),
        "checkpoints are always retained; deletion.policy decides what a deleted job leaves behind",
    ),
    (
        (f"{C}.cleaner.", f"{C}.create-subdir"),
        "does not apply: each lineage has a folder of its own, and its log says which files are deleted",
    ),
    (
        (f"{C}.max-concurrent-checkpoints",),
        "only one checkpoint runs at a time",
    ),
    (
        (f"{C}.mode", f"{C}.consistency-mode"),
        "every checkpoint is exactly-once",
    ),
    (
        (f"{C}.local-backup.", "taskmanager.state.local."),
        "local recovery uses a slot's own files and keeps no second copy of them; switch it with "
        "stateBackend.localRecovery",
    ),
    (
        (f"{ROCKSDB}.memory.fixed-per-tm", "state.backend.latency-track.", "state.latency-track.",
         "state.backend.async"),
        "does not apply: memory is bounded for each slot, snapshots are always asynchronous, and metrics.md lists the "
        "latencies that are measured",
    ),
    (
        ("jobmanager.", "taskmanager.", "rest.", "web.", "blob.", "akka.", "pekko.", "cluster.", "high-availability",
         "historyserver.", "env.", "io.tmp.dirs", "classloader.", "process.", "queryable-state.", "heartbeat.",
         "slotmanager.", "slot.", "resourcemanager.", "scheduler-mode", "jobstore.", "fs.", "plugin.", "task.",
         "client.", "yarn.", "zookeeper.", "security.", "metrics.", "kubernetes.", "python.", "pipeline.object-reuse"),
        "belongs to Flink's own processes: there are none here; Spark and the operator have settings of their own",
    ),
)  # fmt: skip
"""Families of keys (by prefix) that cannot mean anything here, and the sentence that answers them. A job that has them
runs. The first family that fits is the answer."""

LATER = (
    (
        ("state.backend.changelog.", "state.changelog.", "dstl."),
        "the changelog state backend is not in this version",
    ),
    (
        (f"{C}.file-merging.",),
        "control of file merging by these keys is not in this version",
    ),
    (("state.backend.forst.",), "disaggregated state backends are not in this version"),
)
"""Families for later versions. The switch of each is in ``FIXED``; what its other keys say has no effect without it."""

FIXED = (
    (
        ("state.backend.changelog.enabled", "state.changelog.enabled"),
        "false",
        "the changelog state backend is not in this version",
    ),
    (
        (f"{C}.file-merging.enabled",),
        "false",
        "control of file merging by these keys is not in this version",
    ),
    (
        ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode"),
        "NO_CLAIM",
        "claim modes other than NO_CLAIM are not in this version",
    ),
)
"""Keys with one value that asks for what happens anyway; every other value is refused."""

VALUES = {
    "duration": (
        "(?i)^[0-9]+ *(|ms|millis?|milliseconds?|s|secs?|seconds?|m|min|minutes?|h|hours?|d|days?)$",
        "a duration must be written as 10 min, 30 s or 500 ms",
    ),
    "memory": (
        "(?i)^[0-9]+ *(|b|bytes|k|kb|kibibytes|m|mb|mebibytes|g|gb|gibibytes|t|tb|tebibytes)$",
        "a memory size must be written as 64mb or 20kb",
    ),
    "boolean": ("(?i)^(true|false)$", "a switch must be 'true' or 'false'"),
    "integer": ("^[0-9]{1,9}$", "a count must be a whole number"),
    "number": ("^[0-9]{1,9}([.][0-9]{1,9})?$", "a ratio or factor must be a number such as 0.5"),
}
"""How a value of each kind is written in Flink's configuration."""

CHOICES = tuple(
    (BY_PATH[path].flink, tuple(BY_PATH[path].words), message)
    for path, message in (
        (
            "stateBackend.type",
            "the state backend must be hashmap or rocksdb; others are not in this version, and a Python class of your "
            "own is named by stateBackend.class",
        ),
        (
            "stateBackend.predefinedOptions",
            "predefined options must be DEFAULT, SPINNING_DISK_OPTIMIZED, SPINNING_DISK_OPTIMIZED_HIGH_MEM or "
            "FLASH_SSD_OPTIMIZED",
        ),
        ("stateBackend.timerService", "the timer service must be HEAP or ROCKSDB"),
        ("savepoints.formatType", "the format of savepoints must be CANONICAL or NATIVE"),
        (
            "checkpointing.storageType",
            "the checkpoint storage must be filesystem or jobmanager",
        ),
        (
            "restart.strategy",
            "the restart strategy must be none, fixed-delay, exponential-delay or failure-rate",
        ),
    )
)
"""Keys whose value is one of a few words."""

LOCATIONS = (
    (LATER_SCHEMES, False, "storage on Google Cloud, Azure or HDFS is not in this version"),
    (
        f"^[^:]*$|^(s3|file)://|{LATER_SCHEMES}",
        True,
        "the scheme of a storage URL must be s3:// or file:// (s3a:// and s3n:// are written s3://)",
    ),
    ("^[a-z0-9]+://[^/]*@", False, "a storage URL never holds credentials; use spec.s3.secretRef"),
)
"""The forms of a storage's URL: (pattern, whether it must match, message)."""


def understood() -> list[str]:
    """Every key that stands for something, or is answered by a rule of its own."""
    fixed = [key for keys, _, _ in FIXED for key in keys]
    return [*BY_KEY, *fixed, *OPTION_KEYS, *(f"{METRICS}.{name}" for name in NATIVE_METRICS)]
