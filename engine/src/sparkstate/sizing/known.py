"""The constants as they were measured. After a change of the data path, measure again and change the values here; the
tables of ``docs/sizing.md`` follow (a test compares them)."""

from __future__ import annotations

from sparkstate.sizing.constants import (
    FUNCTIONS,
    BackendConstants,
    ColumnConstants,
    Constant,
    Constants,
    EntryCost,
    KeyCost,
    RequestConstants,
    Source,
)

_MACHINE = "2 cores of a virtual machine that others used too"
SCALE = Source("make bench-scale ARGS='--rounds 1'", "c0aa13be", "2026-11-27", _MACHINE)
STATE = Source("make bench-state ARGS='--keys 100000 --rounds 8'", "f6a7ebef", "2026-11-25", _MACHINE)
COLUMNS = Source("make bench-state ARGS='--parts columns --keys 1000000'", "ed9f4c09", "2026-11-26", _MACHINE)
TOUCHES = Source("make bench-state ARGS='--parts touches'", "c0aa13be", "2026-11-27", _MACHINE)
REQUESTS = Source("make bench-requests", "a73aebd7", "2026-11-25", _MACHINE)
KINDS = Source(
    "make bench-scale ARGS='--rounds 1 --slots 2 --rows 250000 --epochs 5 --functions batches added'",
    "c0aa13be",
    "2026-11-27",
    _MACHINE,
)
COMPILED = Source(
    "make bench-scale ARGS='--rounds 1 --slots 2 --compiled'",
    "39c4574d",
    "2026-11-29",
    "2 cores of another virtual machine, which other work used too; scaled by the same command without --compiled",
)
"""That machine took 2.90 and 3.07 µs for a function per record in Python, and 1.47 and 1.53 on the compiled path."""
FILES = Source("make bench-checkpoints", "08f3023", "2026-11-21", _MACHINE)
LOSSES = Source('make e2e ARGS="-k how_long"', "00b89f07", "2026-11-23", _MACHINE)
_CPU, _BYTES, _EXACT, _TIME = 1.0, 0.25, 0.1, 2.0
"""How far a value may be off, as a share of it. Requests vary with the number of files, processors by a factor of 2."""


def _us(value: float, meaning: str, source: Source = SCALE) -> Constant:
    return Constant(value, "µs", meaning, source, _CPU)


def _bytes(value: float, meaning: str, source: Source = STATE) -> Constant:
    return Constant(value, "bytes", meaning, source, _BYTES)


def _byte(value: float, unit: str, meaning: str) -> Constant:
    return Constant(value, unit, meaning, STATE, _BYTES if unit == "bytes" else _CPU)


def _requests(value: float, meaning: str) -> Constant:
    return Constant(value, "requests", meaning, REQUESTS, _EXACT)


_HASHMAP = BackendConstants(
    slots_us={
        "record": _us(1.06, "HashMap: a slot, per row, a function per record"),
        "record-compiled": _us(
            0.54, "HashMap: a slot, per row, a function per record on the compiled path", COMPILED
        ),
        "batch": _us(0.28, "HashMap: a slot, per row, a function on batches", KINDS),
        "batch-per-key": _us(
            0.23, "HashMap: a slot, per row, a function on batches that answers per key", KINDS
        ),
    },
    touch_us=_us(2.6, "HashMap: a slot, once more for each key that an epoch touches", TOUCHES),
    memory=KeyCost(
        _bytes(245.0, "HashMap: memory of a key"),
        _byte(1.08, "bytes", "HashMap: memory for each byte of its values"),
    ),
    disk=None,
    checkpoint=KeyCost(
        _bytes(23.0, "HashMap: a key in a checkpoint"),
        _byte(1.0, "bytes", "HashMap: a checkpoint, for each byte of its values"),
    ),
    store_us=KeyCost(
        _us(4.7, "HashMap: a slot, for each key in each checkpoint", STATE),
        _byte(0.007, "µs", "HashMap: a slot, for each byte of its values in each checkpoint"),
    ),
    restore_us=KeyCost(
        _us(4.1, "HashMap: a slot, for each key that it restores", STATE),
        _byte(0.0027, "µs", "HashMap: a slot, for each byte of the values that it restores"),
    ),
    columns=ColumnConstants(
        memory=EntryCost(_bytes(58.0, "HashMap: memory of a number in a column", COLUMNS)),
        store_us=EntryCost(
            _us(0.6, "HashMap: a slot, for each number of a column in each checkpoint", COLUMNS)
        ),
        restore_us=EntryCost(
            _us(1.0, "HashMap: a slot, for each number of a column that it restores", COLUMNS)
        ),
    ),
)
_ROCKSDB = BackendConstants(
    slots_us={
        "record": _us(1.11, "RocksDB: a slot, per row, a function per record"),
        "record-compiled": _us(
            0.55, "RocksDB: a slot, per row, a function per record on the compiled path", COMPILED
        ),
        "batch": _us(0.31, "RocksDB: a slot, per row, a function on batches", KINDS),
        "batch-per-key": _us(
            0.24, "RocksDB: a slot, per row, a function on batches that answers per key", KINDS
        ),
    },
    touch_us=_us(13.8, "RocksDB: a slot, once more for each key that an epoch touches", TOUCHES),
    memory=None,
    disk=KeyCost(
        _bytes(18.0, "RocksDB: a key on disk"),
        _byte(1.22, "bytes", "RocksDB: disk for each byte of its values"),
    ),
    checkpoint=KeyCost(
        _bytes(18.0, "RocksDB: a key in a checkpoint"),
        _byte(1.22, "bytes", "RocksDB: a checkpoint, for each byte of its values"),
    ),
    store_us=KeyCost(
        _us(1.2, "RocksDB: a slot, for each key that a checkpoint stores", STATE),
        _byte(0.005, "µs", "RocksDB: a slot, for each byte of the values that a checkpoint stores"),
    ),
    restore_us=KeyCost(_us(2.1, "RocksDB: a slot, for each key that it restores", STATE)),
)
KNOWN = Constants(
    # The JVM carries the same rows for each kind of function. Runs of the others were too short to tell them apart.
    spark_us=dict.fromkeys(FUNCTIONS, _us(1.05, "Spark and the driver, per row")),
    backends={"hashmap": _HASHMAP, "rocksdb": _ROCKSDB},
    miss_us=_us(12.0, "RocksDB: a slot, once more for each key that is touched and not in memory", TOUCHES),
    upload=Constant(
        4.0, "times", "RocksDB: bytes uploaded for each byte of the keys that changed", FILES, _CPU
    ),
    requests=RequestConstants(
        put=_requests(3.0, "PUT by the driver for each checkpoint: its metadata and two entries of the log"),
        list=_requests(2.0, "LIST by the driver for each checkpoint"),
        delete=_requests(1.0, "DELETE by the driver for each checkpoint"),
        shard_objects=Constant(
            1.09, "objects", "RocksDB: a changed shard's new files in a checkpoint", REQUESTS, _EXACT
        ),
        object_put=_requests(1.0, "PUT for each object of a checkpoint"),
        object_get=_requests(1.0, "HEAD for each object of a checkpoint"),
        fence_get=_requests(1.0, "GET each time that the driver checks its claim (a third of fenceTimeout)"),
        fence_list=_requests(1.0, "LIST each time that the driver checks its claim"),
    ),
    restore_mib_per_s=Constant(186.0, "MiB/s", "a slot's restore from S3", LOSSES, _TIME),
    restart_s={
        "local": Constant(
            7.0, "s", "a killed driver, until an epoch has committed, nothing downloaded", LOSSES, _TIME
        ),
        "cluster": Constant(10.2, "s", "the same with deployment: cluster, less the restore", LOSSES, _TIME),
    },
)
