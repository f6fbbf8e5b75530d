"""Managed memory: how it is divided, and that a slot keeps to it, upwards and downwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.backends import cells
from support.backends.cells import commit

from sparkstate import errors
from sparkstate.backends.rocksdb import memory
from sparkstate.settings import MIB, StateBackendSettings

TESTS = Path(__file__).parents[2]


def plan(**given):
    return memory.plan(StateBackendSettings(type="rocksdb", **given))


def test_a_sixth_is_for_overlays_and_the_rest_of_the_budget_is_divided_as_in_flink():
    divided = plan(managed_memory_bytes=360 * MIB)
    assert divided.source == "managed"
    assert divided.budget == 360 * MIB
    assert divided.overlays == 60 * MIB
    assert divided.filters == 7.5 * MIB
    assert divided.buffers == 15 * MIB
    assert divided.cache == 237.5 * MIB
    assert divided.write_buffers == 95 * MIB


def test_the_ratio_of_write_buffers_can_be_chosen():
    assert plan(managed_memory_bytes=360 * MIB, write_buffer_ratio=0.3).write_buffers == 57 * MIB


def test_fixed_memory_counts_before_managed_memory():
    divided = plan(managed_memory_bytes=300 * MIB, fixed_memory_bytes=30 * MIB)
    assert (divided.source, divided.budget) == ("fixed-per-slot", 30 * MIB)


def test_neither_means_unmanaged_with_a_cache_per_column_family(make_slot):
    slot = make_slot(managed_memory_bytes=None)
    assert not slot.factory.plan.bounded
    commit(slot.store(), cells.values({1: 1}), cells.appended(1, "a"))
    told = slot.factory.memory()
    assert told["budget"] == 0
    assert told["write_buffers"] > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"write_buffer_ratio": 0.0}, "writeBufferRatio is 0.0"),
        ({"write_buffer_ratio": 1.0}, "writeBufferRatio is 1.0"),
        ({"high_prio_pool_ratio": 1.5}, "highPrioPoolRatio is 1.5"),
        ({"managed_memory_bytes": 1000}, "1000 bytes per slot"),
    ],
)
def test_a_division_that_cannot_work_is_refused(given, words):
    with pytest.raises(errors.SpecInvalid, match=words):
        plan(**given)


def test_the_high_priority_ratio_is_kept_and_said_to_be_effective_by_half():
    assert plan().notices == ()
    assert plan().requested_high_prio_pool_ratio == 0.1
    chosen = plan(high_prio_pool_ratio=0.3)
    assert chosen.requested_high_prio_pool_ratio == 0.3
    assert "effective 0.5" in chosen.notices[0]


def test_a_high_priority_ratio_of_zero_is_warned_of_and_not_refused(make_slot, caplog):
    make_slot(high_prio_pool_ratio=0.0)
    assert "strongly advised against" in caplog.text
    assert "effective 0.5" in caplog.text


def test_a_memtables_unit_is_small_where_the_budget_is():
    assert memory.arena_block(256 * MIB) == MIB
    assert memory.arena_block(32 * MIB) == 128 * 1024
    assert memory.arena_block(100) == 4096


@pytest.mark.parametrize(
    ("mib", "stores", "states", "scarce"),
    [(1, 32, 30, True), (16, 32, 30, False), (1, 64, 1, False), (1, 128, 1, True), (256, 8, 200, False)],
)
def test_write_buffers_that_are_too_small_for_shards_and_states_are_told_with_the_remedy(
    mib, stores, states, scarce
):
    divided = plan(managed_memory_bytes=mib * MIB)
    said = memory.scarcity(divided, 0.5, stores, states)
    assert bool(said) == scarce
    if scarce:
        assert f"a slot has {stores * states} of them" in said
        assert "create it with fewer shards" in said


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("stores", "states"), [(32, 3), (32, 30), (1, 500), (256, 7)])
def test_the_memory_that_the_sentence_asks_for_is_enough_and_less_is_not(ratio, stores, states):
    (asked,) = re.findall(
        r"Give managedMemoryPerSlot (\d+)Mi or more",
        memory.scarcity(plan(managed_memory_bytes=MIB, write_buffer_ratio=ratio), ratio, stores, 10 * states),
    )
    for mib, enough in ((int(asked), True), (int(asked) - 1, False)):
        divided = plan(managed_memory_bytes=mib * MIB, write_buffer_ratio=ratio)
        assert (memory.scarcity(divided, ratio, stores, 10 * states) == "") == enough


def test_nothing_is_scarce_without_a_budget_or_without_states():
    assert memory.scarcity(plan(managed_memory_bytes=None), 0.5, 32, 1000) == ""
    assert memory.scarcity(plan(managed_memory_bytes=MIB), 0.5, 32, 0) == ""


def test_a_slot_says_so_once_it_has_more_states_than_its_memory_has_room_for(make_slot, caplog):
    slot = make_slot(managed_memory_bytes=MIB)
    stores = [slot.store(shard) for shard in range(48)]
    for store in stores[:2]:
        commit(store, cells.values({1: 1}))
    assert "a slot has" not in caplog.text
    for store in stores[:2]:
        commit(store, cells.appended(1, "a"))
    assert caplog.text.count("a slot has 96 of them, one for each state (2) in each of its shards (48)") == 1


def test_all_stores_of_a_slot_share_one_cache(slot):
    stores = [slot.store(shard) for shard in range(3)]
    for store in stores:
        commit(store, cells.values({1: 1}))
    usages = {
        store.database().families()["op/total"].integer("rocksdb.block-cache-usage") for store in stores
    }
    assert usages == {slot.factory.memory()["cache"]}


@pytest.mark.parametrize("stores", [4, 16])
def test_a_slot_under_pressure_keeps_to_its_budget_and_uses_it(tmp_path, stores):
    done = subprocess.run(
        [sys.executable, "-m", "support.backends.memory_probe", str(tmp_path), str(stores), "32"],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        check=True,
        text=True,
        timeout=240,
    )
    seen = json.loads(done.stdout)
    assert seen["stored"] > 0.9 * seen["budget"]
    assert seen["written"] > 2 * seen["budget"]
    # Upwards: by RocksDB's own account, and by the kernel's.
    assert seen["used"] <= seen["budget"]
    assert seen["resident"] <= 1.2 * seen["budget"]
    # Downwards: it is not left idle.
    assert seen["cache_at_end"] >= 0.8 * seen["cache_capacity"]
    # Its values are text, so that column buffers have none of them.
    assert seen["write_buffers"] >= 0.8 * (seen["write_buffers_limit"] - seen["column_buffers_limit"])
