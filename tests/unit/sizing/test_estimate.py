"""An estimate by hand with round constants, and what holds for every size with the measured ones."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import sizing
from sparkstate.checkpoint import uploader
from sparkstate.settings import (
    MIB,
    CheckpointSettings,
    EntryPoint,
    JobSettings,
    StateBackendSettings,
    TriggerSettings,
)
from sparkstate.sizing import text
from sparkstate.sizing.constants import (
    BackendConstants,
    ColumnConstants,
    Constant,
    Constants,
    EntryCost,
    KeyCost,
    RequestConstants,
    Source,
)
from sparkstate.sizing.estimate import MERGE_LIMIT, Checkpoint, given_processors

SOURCE = Source("by hand", "none", "2026-11-25", "paper")


def constant(value: float) -> Constant:
    return Constant(value, "", "", SOURCE, 0.0)


def by_function(record: float) -> dict[sizing.Function, Constant]:
    shares = {"record": 1, "record-compiled": 0.6, "batch": 0.5, "batch-per-key": 0.25}
    return {name: constant(record * share) for name, share in shares.items()}


def round_backend(memory: KeyCost | None, disk: KeyCost | None) -> BackendConstants:
    return BackendConstants(
        slots_us=by_function(2.0),
        touch_us=constant(3.0),
        memory=memory,
        disk=disk,
        checkpoint=KeyCost(constant(20), constant(1)),
        store_us=KeyCost(constant(4.0), constant(0.01)),
        restore_us=KeyCost(constant(10.0)),
    )


PER_KEY = KeyCost(constant(100), constant(2))
KNOWN = Constants(
    spark_us=by_function(1.0),
    backends={"hashmap": round_backend(PER_KEY, None), "rocksdb": round_backend(None, PER_KEY)},
    miss_us=constant(40.0),
    upload=constant(3.0),
    requests=RequestConstants(*(constant(number) for number in (4, 3, 2, 1, 1, 1, 1, 1))),
    restore_mib_per_s=constant(100.0),
    restart_s={"local": constant(7.0), "cluster": constant(12.0)},
)
"""Constants with which one can reckon in one's head."""


def a_job(backend: str = "hashmap", **changes: Any) -> JobSettings:
    """Two slots on four processors, a checkpoint every ten seconds."""
    whole = {
        "backend": StateBackendSettings(type=backend, managed_memory_bytes=144_000_000),  # type: ignore[arg-type]
        "checkpoint": CheckpointSettings(storage="state", interval_s=10.0, retained=1),
        "slots": 2,
        "cores": 4,
        "shards": 16,
        **changes,
    }
    return JobSettings(name="job", entry=EntryPoint(module="a.job"), **whole)  # type: ignore[arg-type]


SIZE = sizing.Size(rows_per_s=100_000, keys=1_000_000, key_bytes=100)


def test_hashmap_by_hand() -> None:
    needed = sizing.estimate(SIZE, a_job(), "record", KNOWN)
    # 100 k rows/s of 2 µs; each touches another key, 3 µs; 1 M keys of 4 µs and 100 x 0.01 µs are stored in 10 s.
    assert needed.processors.slots == pytest.approx(0.2 + 0.3 + 0.5)
    assert needed.processors.spark == pytest.approx(0.1)
    assert (needed.processors.slots_needed, needed.processors.to_give) == (2, 2)
    # A key takes 100 + 2 x 100 bytes of memory, half of them in each slot; 256 MiB are the default.
    assert (needed.state.memory, needed.state.disk, needed.state.memory_slots) == (150_000_000, None, 2)
    assert needed.slots_needed == 2
    whole = 120_000_000
    assert needed.checkpoint == Checkpoint(first=whole, whole=whole, each=whole, stored=2 * whole)
    assert needed.upload_bytes_per_s == 12_000_000
    assert needed.row_bytes_per_s == 3_600_000
    # 360 checkpoints an hour; 16 shards of 7.15 MiB are an object each; 360 checks of the claim.
    assert (needed.requests.put, needed.requests.get) == (360 * (4 + 16), 360 * 16 + 360)
    assert (needed.requests.list, needed.requests.delete) == (360 * 3 + 360, 360 * 2)
    # 500 k keys of 10 µs are slower than 57 MiB at 100 MiB/s. 1.0 of 2 slots is busy: 1 s for each s behind.
    assert needed.recovery.restore_s == pytest.approx(5.0)
    assert needed.recovery.catch_up_s == pytest.approx(10 + 7 + 5)


@pytest.mark.parametrize(
    ("key_bytes", "entries"), [(1, 1), (9, 1), (10, 2), (27, 3)], ids=["a boolean", "one", "two", "three"]
)
def test_numbers_of_hashmap_cost_what_columns_cost(key_bytes: int, entries: int) -> None:
    columns = ColumnConstants(*(EntryCost(constant(each)) for each in (50.0, 1.0, 2.0)))
    hashmap = dataclasses.replace(KNOWN.backends["hashmap"], columns=columns)
    known = dataclasses.replace(KNOWN, backends={**KNOWN.backends, "hashmap": hashmap})
    size = sizing.Size(rows_per_s=100_000, keys=1_000_000, key_bytes=key_bytes)
    needed = sizing.estimate(size, a_job(), "record", known, "numbers")
    assert needed.state.memory == 1_000_000 * 50 * entries / 2
    # Rows and touches as ever; 1 M keys of so many entries are stored in 10 s, and 500 k restored by each slot.
    assert needed.processors.slots == pytest.approx(0.2 + 0.3 + 0.1 * entries)
    assert needed.recovery.restore_s == pytest.approx(
        max(1.0 * entries, needed.checkpoint.whole / 2 / MIB / 100)
    )
    # Stored bytes are those of any value, and RocksDB has no columns.
    assert needed.checkpoint == sizing.estimate(size, a_job(), "record", known).checkpoint
    on_disk = [sizing.estimate(size, a_job("rocksdb"), "record", known, each) for each in sizing.VALUES]
    assert dataclasses.replace(on_disk[0], values="numbers") == on_disk[1]


def test_rocksdb_by_hand() -> None:
    needed = sizing.estimate(SIZE, a_job("rocksdb"), "batch", KNOWN)
    # A slot has 150 MB of state, and 144 MB x 5/6 / 2 hold blocks of it. 60 % of the touched keys are read from
    # files, 40 µs each. In 10 s, 1 M rows may change all keys.
    assert needed.state.cached == pytest.approx(0.4)
    assert needed.processors.slots == pytest.approx(0.1 + 0.3 + 0.6 * 4.0 + 0.5)
    # Eight files of all keys wait to be merged, and the merged one is there twice for a while.
    assert (needed.state.disk, needed.state.memory) == (10 * 150_000_000, None)
    assert needed.checkpoint == Checkpoint(
        first=120_000_000, whole=9 * 120_000_000, each=3 * 120_000_000, stored=12 * 120_000_000
    )
    # 540 MB at 100 MiB/s are slower than 500 k keys of 10 µs.
    assert needed.recovery.restore_s == pytest.approx(540_000_000 / MIB / 100)
    # More is busy than two slots can do: the job falls behind for ever.
    assert needed.recovery.catch_up_s is None
    assert needed.slots_needed == 5


def test_small_hashmap_shards_share_one_object_for_each_slot() -> None:
    small = sizing.estimate(sizing.Size(100, 1000, 100), a_job(), "record", KNOWN)
    assert (small.requests.put, small.requests.get) == (360 * (4 + 2), 360 * 2 + 360)
    assert MERGE_LIMIT == uploader.MERGE_LIMIT


def test_large_shards_are_stored_in_parts_of_8_mib() -> None:
    large = sizing.estimate(sizing.Size(100, 2_000_000, 100), a_job(), "record", KNOWN)
    # 16 shards of 14.3 MiB: each has a beginning, an end, and its bytes in parts.
    assert large.requests.put == math.ceil(360 * (4 + 2 * 16 + 240_000_000 / (8 * MIB)))
    assert large.requests.get == 360 * 16 + 360


def test_a_longer_trigger_reads_each_key_less_often() -> None:
    size = sizing.Size(100_000, 200_000, 100)
    quick = sizing.estimate(size, a_job(), "record", KNOWN).processors.slots
    slow = sizing.estimate(
        size, a_job(trigger=TriggerSettings(processing_time_ms=10_000)), "record", KNOWN
    ).processors.slots
    # 100 k touches a second of 3 µs, or 20 k.
    assert quick - slow == pytest.approx(0.3 - 0.06)


def test_a_checkpoint_that_is_not_incremental_is_always_whole() -> None:
    whole = StateBackendSettings(type="rocksdb", incremental=False)
    needed = sizing.estimate(
        sizing.Size(10, 1_000_000, 100), dataclasses.replace(a_job(), backend=whole), "record", KNOWN
    )
    # 100 rows come in ten seconds; their eight files wait to be merged.
    assert needed.checkpoint.each == needed.checkpoint.whole == 120_000_000 + 8 * 100 * 120


def test_executors_give_their_cores_to_the_slots() -> None:
    cluster = a_job(
        deployment="cluster", slots=4, slots_per_executor=2, spark_conf={"spark.executor.cores": "3"}
    )
    assert given_processors(cluster) == 6
    assert sizing.estimate(SIZE, cluster, "record", KNOWN).recovery.restart_s == 12.0


def numbers(needed: sizing.Estimate) -> dict[str, float]:
    """Everything of an estimate that may not fall; never to catch up is longer than any time."""
    recovery = needed.recovery
    return {
        "spark": needed.processors.spark,
        "slots": needed.processors.slots,
        "to give": needed.processors.to_give,
        "slots needed": needed.slots_needed,
        "memory": needed.state.memory or 0,
        "disk": needed.state.disk or 0,
        "missed": 1 - needed.state.cached,
        **dataclasses.asdict(needed.checkpoint),
        "upload": needed.upload_bytes_per_s,
        "rows": needed.row_bytes_per_s,
        **dataclasses.asdict(needed.requests),
        "restore": recovery.restore_s,
        "catch up": float("inf") if recovery.catch_up_s is None else recovery.catch_up_s,
    }


SIZES = st.builds(sizing.Size, st.integers(1, 10**7), st.integers(1, 10**10), st.integers(1, 10**6))


@given(
    size=SIZES,
    field=st.sampled_from(["rows_per_s", "keys", "key_bytes"]),
    factor=st.floats(1.0, 1000.0),
    backend=st.sampled_from(["hashmap", "rocksdb"]),
    function=st.sampled_from(sizing.FUNCTIONS),
    values=st.sampled_from(sizing.VALUES),
    slots=st.integers(1, 64),
    interval_s=st.floats(0.5, 3600.0),
)
def test_no_number_falls_when_the_size_grows(
    size: sizing.Size,
    field: str,
    factor: float,
    backend: str,
    function: sizing.Function,
    values: sizing.Values,
    slots: int,
    interval_s: float,
) -> None:
    checkpoint = CheckpointSettings(storage="state", interval_s=interval_s)
    job = a_job(backend, slots=slots, shards=None, checkpoint=checkpoint)
    larger = dataclasses.replace(size, **{field: int(getattr(size, field) * factor) + 1})
    before = numbers(sizing.estimate(size, job, function, sizing.KNOWN, values))
    after = numbers(sizing.estimate(larger, job, function, sizing.KNOWN, values))
    fallen = [name for name in before if after[name] < before[name] * (1 - 1e-9)]
    assert fallen == []


@given(size=SIZES, backend=st.sampled_from(["hashmap", "rocksdb"]))
def test_each_remedy_is_for_something_that_the_table_calls_too_little(
    size: sizing.Size, backend: str
) -> None:
    job = a_job(backend)
    needed = sizing.estimate(size, job, "record", sizing.KNOWN)
    short = [row for row in text.rows(needed, job) if "TOO LITTLE" in row[2]]
    assert bool(short) == bool(text.remedies(needed, job))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (3 * MIB // 2, "1.50 MiB"),
        (2**40 * 1234, "1,234 TiB"),
    ],
)
def test_sizes_have_three_digits(size: int, words: str) -> None:
    assert text.size_text(size) == words


@pytest.mark.parametrize(
    ("backend", "slots", "shards", "put", "head"),
    [
        pytest.param("rocksdb", 2, 16, 20.45, 17.45, id="rocksdb-2-16"),
        pytest.param("rocksdb", 4, 32, 37.73, 34.73, id="rocksdb-4-32"),
        pytest.param("hashmap", 2, 16, 5.0, 2.0, id="hashmap-2-16"),
    ],
)
def test_requests_agree_with_those_that_a_proxy_counted(
    backend: str, slots: int, shards: int, put: float, head: float
) -> None:
    """``make bench-requests``, 2026-11-25, for each checkpoint: 60,000 keys, all changed between two checkpoints."""
    job = a_job(backend, slots=slots, shards=shards)
    asked = sizing.estimate(sizing.Size(20_000, 60_000, 16), job, "record", sizing.KNOWN).requests
    assert asked.put / 360 == pytest.approx(put, rel=0.1)
    assert (asked.get - 360) / 360 == pytest.approx(head, rel=0.1)
    assert (asked.list, asked.delete) == (360 * 2 + 360, 360)
