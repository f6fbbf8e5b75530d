"""The quantities that must not grow: each line of the soak's table, with how much of it is noise."""

from __future__ import annotations

from sparkstate_tools.soak.slopes import Quantity

MIB = float(2**20)

QUANTITIES = (
    Quantity("driver_rss", "driver, resident memory", "MiB", MIB, 8 * MIB, life="driver"),
    Quantity("driver_fds", "driver, descriptors", "", 1, 4, life="driver"),
    Quantity("driver_threads", "driver, threads", "", 1, 3, life="driver"),
    Quantity("jvm_rss", "JVM, resident memory", "MiB", MIB, 48 * MIB, 0.15, life="driver"),
    Quantity("jvm_heap_after_cleaning", "JVM, live heap", "MiB", MIB, 16 * MIB, life="driver"),
    Quantity("jvm_fds", "JVM, descriptors", "", 1, 12, life="driver"),
    Quantity("jvm_threads", "JVM, threads", "", 1, 8, life="driver"),
    Quantity(
        "slots_own_rss", "slots, resident memory without RocksDB's", "MiB", MIB, 16 * MIB, life="incarnation"
    ),
    Quantity("slots_above_budget", "RocksDB's memory above its budget", "MiB", MIB, 1 * MIB),
    Quantity("slots_fds", "slots, descriptors", "", 1, 8, life="incarnation"),
    # Pools for parts, reads and uploads make a thread when all of theirs are busy, up to their bound: over some
    # thousand epochs slots of RocksDB go from 62 to 72 threads, and stay there.
    Quantity("slots_threads", "slots, threads", "", 1, 12, life="incarnation"),
    Quantity("runner_rss", "runner, resident memory", "MiB", MIB, 4 * MIB, life="runner"),
    Quantity("local_files", "local disk, files", "", 1, 40),
    Quantity("local_bytes", "local disk", "MiB", MIB, 8 * MIB),
    Quantity("objects", "stored objects", "", 1, 40),
    Quantity("log_objects", "stored objects of the log", "", 1, 40),
    Quantity("object_bytes", "stored bytes", "MiB", MIB, 4 * MIB),
    Quantity("state_bytes", "state", "MiB", MIB, 1 * MIB),
    Quantity("epoch_ms", "an epoch", "ms", 1, 25),
    Quantity("checkpoint_ms", "a checkpoint", "ms", 1, 100),
    Quantity("restore_ms", "a restore, to the first epoch", "ms", 1, 500),
    Quantity("claim_ms", "a claim", "ms", 1, 500),
)
