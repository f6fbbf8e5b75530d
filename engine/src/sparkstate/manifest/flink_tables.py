"""Flink's configuration keys that mean no field of their own: options, metrics, and sentences for the others."""

from __future__ import annotations

from sparkstate.backends.rocksdb import keys
from sparkstate.manifest.judging import LATER_SCHEMES

ROCKSDB = "state.backend.rocksdb"
METRICS = f"{ROCKSDB}.metrics"
C = "execution.checkpointing"

ROCKSDB_OPTIONS = frozenset({*keys.KEYS, *keys.OWN_KEYS, *keys.WITHOUT_EFFECT})
"""Flink's configurable RocksDB keys, without their common prefix."""

NOT_APPLICABLE = (
    (
        (f"{C}.unaligned", f"{C}.aligned-checkpoint-timeout", f"{C}.alignment-timeout"),
        "unaligned checkpoints and alignment timeouts do not apply: the end of an epoch is the barrier, "
        "there is nothing to align",
    ),
    (
        ("taskmanager.network.",),
        "network buffers and their debloating do not apply: Spark moves data in epochs of a bounded size",
    ),
    (
        ("taskmanager.memory.", "jobmanager.memory."),
        "Flink's memory model does not apply: use driver.memory, executor.memory and managedMemoryPerSlot",
    ),
    (
        ("execution.buffer-timeout", "execution.checkpointing.checkpoints-after-tasks-finish",
         "execution.checkpointing.during-recovery", "execution.checkpointing.interval-during-backlog"),
        "does not apply to epochs: a checkpoint is taken between two of them",
    ),
    (
        ("execution.checkpointing.externalized-",),
        "checkpoints are always retained; what a deleted job leaves is decided by deletion.policy",
    ),
    (
        ("execution.checkpointing.cleaner.", "execution.checkpointing.create-subdir"),
        "does not apply: files are deleted by the lineage's log, below a folder of its own",
    ),
)  # fmt: skip
"""Families of keys (by prefix) that cannot mean anything here, and the sentence that is said instead."""

LATER = (
    (
        ("state.backend.changelog.", "state.changelog.", "dstl."),
        "the changelog state backend is not in this version",
    ),
    (("execution.checkpointing.file-merging.",), "file merging by these keys is not in this version"),
    (("state.backend.forst.",), "disaggregated state backends are not in this version"),
)
"""Families for later versions."""

FIXED = (
    (
        (f"{C}.max-concurrent-checkpoints",),
        "1",
        "one checkpoint runs at a time; more than 1 does not apply to epochs",
    ),
    (
        ("execution.checkpointing.local-backup.enabled",),
        "false",
        "local recovery uses a slot's own files, there is no second copy of them: it is switched by "
        "stateBackend.localRecovery",
    ),
    (
        (f"{C}.mode", f"{C}.consistency-mode"),
        "EXACTLY_ONCE",
        "every checkpoint is exactly once; leave the key out",
    ),
    (
        (f"{C}.storage", "state.checkpoint-storage"),
        "filesystem",
        "checkpoints always go to checkpointing.storage; leave the key out",
    ),
    (
        ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode"),
        "NO_CLAIM",
        "claim modes other than NO_CLAIM are not in this version",
    ),
)
"""Keys with one value that means what is done anyway; every other is answered."""

VALUES = {
    "duration": (
        "(?i)^[0-9]+ *(|ms|millis?|milliseconds?|s|secs?|seconds?|m|min|minutes?|h|hours?|d|days?)$",
        "a duration is written as 10 min, 30 s or 500 ms",
    ),
    "memory": (
        "(?i)^[0-9]+ *(|b|bytes|k|kb|kibibytes|m|mb|mebibytes|g|gb|gibibytes|t|tb|tebibytes)$",
        "a memory size is written as 64mb or 20kb",
    ),
    "boolean": ("^(true|false)$", "a switch is 'true' or 'false'"),
    "integer": ("^[0-9]{1,9}$", "a count is a whole number"),
    "number": ("^[0-9]{1,9}([.][0-9]{1,9})?$", "a ratio or factor is a number such as 0.5"),
}
"""How a value of each kind is written in Flink's configuration."""

CHOICES = (
    (
        ("state.backend.type", "state.backend"),
        (
            "hashmap", "jobmanager", "filesystem", "rocksdb",
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory",
            "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory",
            "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory",
            "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory",
            "org.apache.flink.runtime.state.filesystem.FsStateBackendFactory",
            "org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory",
        ),
        "the state backend is hashmap or rocksdb; others are not in this version",
    ),
    (
        (f"{ROCKSDB}.predefined-options",),
        ("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
        "predefined options are DEFAULT, SPINNING_DISK_OPTIMIZED, SPINNING_DISK_OPTIMIZED_HIGH_MEM or "
        "FLASH_SSD_OPTIMIZED",
    ),
    (
        (f"{ROCKSDB}.timer-service.factory",),
        ("heap", "rocksdb", "HEAP", "ROCKSDB"),
        "the timer service is HEAP or ROCKSDB",
    ),
    (
        ("restart-strategy.type", "restart-strategy"),
        (
            "none", "off", "disable", "fixed-delay", "fixeddelay", "exponential-delay", "exponentialdelay",
            "failure-rate", "failurerate",
        ),
        "the restart strategy is none, fixed-delay, exponential-delay or failure-rate",
    ),
)  # fmt: skip
"""Keys whose value is one of a few words."""

LOCATIONS = (
    (LATER_SCHEMES.pattern, False, "storage on Google Cloud, Azure or HDFS is not in this version"),
    (
        f"^[^:]*$|^(s3|file)://|{LATER_SCHEMES.pattern}",
        True,
        "the scheme of a storage URL must be s3:// or file:// (s3a:// and s3n:// are written s3://)",
    ),
    ("^[a-z0-9]+://[^/]*@", False, "a storage URL never holds credentials; use spec.s3.secretRef"),
)
"""What the URL of a storage may be: (pattern, whether it must match, message)."""
