"""RocksDB's native metrics: off unless named, by Flink's names."""

from __future__ import annotations

import pytest
from support.backends import cells
from support.backends.cells import VALUES, commit, group_of

from sparkstate import errors
from sparkstate.backends.rocksdb import metrics
from sparkstate_spec import flink_tables


def busy(slot):
    """Two stores with 300 rows each, flushed."""
    for shard in range(2):
        store = slot.store(shard)
        commit(store, cells.values({key: key for key in range(300)}), cells.appended(1, "a"))
        store.prepare_snapshot(1, slot.folder(), canonical=False)
        store.table(VALUES).get_many([group_of(key) for key in range(300)], range(300))


def test_every_metric_that_the_spec_may_name_is_measured():
    assert metrics.short_names(flink_tables.NATIVE_METRICS) == flink_tables.NATIVE_METRICS


def test_metrics_are_off_unless_named(slot):
    busy(slot)
    assert slot.factory.metrics() == {}


@pytest.mark.parametrize("name", sorted(metrics.PROPERTIES))
def test_every_property_has_a_value(make_slot, name):
    slot = make_slot(native_metrics=(name,))
    busy(slot)
    assert set(slot.factory.metrics()) == {name}
    assert slot.factory.metrics()[name] >= 0


def test_properties_are_added_up_over_stores_and_shared_ones_are_not(make_slot):
    slot = make_slot(native_metrics=("estimate-num-keys", "block-cache-capacity", "is-write-stopped"))
    busy(slot)
    assert slot.factory.metrics() == {
        "estimate-num-keys": 2 * 301.0,
        "block-cache-capacity": float(slot.factory.plan.cache),
        "is-write-stopped": 0.0,
    }


def test_unmanaged_caches_are_added_up(make_slot):
    slot = make_slot(native_metrics=("block-cache-capacity",), managed_memory_bytes=None)
    busy(slot)
    assert slot.factory.metrics() == {"block-cache-capacity": 4 * 8 * 1024 * 1024.0}


def test_files_are_told_level_by_level(make_slot):
    slot = make_slot(native_metrics=("num-files-at-level",))
    busy(slot)
    found = slot.factory.metrics()
    assert list(found) == [f"num-files-at-level{level}" for level in range(7)]
    assert found["num-files-at-level0"] == 4


@pytest.mark.parametrize("name", sorted(metrics.TICKERS))
def test_every_ticker_is_counted(make_slot, name):
    slot = make_slot(native_metrics=(metrics.PREFIX + name,))
    busy(slot)
    assert set(slot.factory.metrics()) == {name}


def test_tickers_count_what_happened(make_slot):
    slot = make_slot(native_metrics=("bytes-written", "block-cache-miss"))
    busy(slot)
    found = slot.factory.metrics()
    assert found["bytes-written"] > 2 * 300 * 8
    assert found["block-cache-miss"] > 0


def test_the_column_family_can_be_part_of_the_name(make_slot):
    options = {"state.backend.rocksdb.metrics.column-family-as-variable": "true"}
    slot = make_slot(native_metrics=("estimate-num-keys",), options=options)
    busy(slot)
    found = slot.factory.metrics()
    assert found["op/total.estimate-num-keys"] == 600
    assert found["op/seen.estimate-num-keys"] == 2


def test_a_cache_that_stores_share_is_counted_once_for_each_column_family(make_slot):
    options = {"state.backend.rocksdb.metrics.column-family-as-variable": "true"}
    slot = make_slot(native_metrics=("block-cache-capacity",), options=options)
    busy(slot)
    found = slot.factory.metrics()
    assert found["op/total.block-cache-capacity"] == found["block-cache-capacity"] > 0


def test_a_metric_that_does_not_exist_is_refused(make_slot):
    with pytest.raises(errors.SpecInvalid, match="'speed-of-light'"):
        make_slot(native_metrics=("speed-of-light",))
