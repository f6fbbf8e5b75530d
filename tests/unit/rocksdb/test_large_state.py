"""The defaults for state larger than memory (RFC 0040): who may change them, and that old files go with them."""

from __future__ import annotations

import pytest
from support.backends import cells, options_factories
from support.backends.cells import VALUES, commit, group_of
from support.backends.written_options import options_of

from sparkstate.backends.base import ShardStore

WITHOUT = {"use-bloom-filter": "false"}
WHOLE = {"memory.partitioned-index-filters": "false"}
PARTS = {"memory.partitioned-index-filters": "true"}
BEFORE = {**WITHOUT, **WHOLE}
HIGH_MEM = "SPINNING_DISK_OPTIMIZED_HIGH_MEM"
FACTORIES = "support.backends.options_factories"


def values_of(store: ShardStore, count: int) -> list[object]:
    return store.table(VALUES).get_many([group_of(key) for key in range(count)], range(count))


# ---- the Bloom filter


@pytest.mark.parametrize("predefined", ["DEFAULT", HIGH_MEM])
@pytest.mark.parametrize(
    ("options", "policy"), [({}, "bloomfilter"), (WITHOUT, "nullptr")], ids=["on", "off"]
)
def test_files_have_a_bloom_filter_unless_the_key_says_no(make_slot, predefined, options, policy):
    store = make_slot(predefined_options=predefined, options=options).store()
    commit(store, cells.values({1: 1}))
    assert f"filter_policy={policy}" in options_of(store.database().path)


def test_a_factory_may_take_the_bloom_filter_away(make_slot):
    slot = make_slot(options_factory=f"{FACTORIES}:WithoutFilter")
    commit(store := slot.store(), cells.values({1: 1}))
    assert "filter_policy=nullptr" in options_of(store.database().path)


def filtered(slot) -> float:
    """How often a filter spared the look into a file, with four files of which each has a quarter of the keys."""
    store = slot.store()
    for part in range(4):
        commit(store, cells.values({key: key for key in range(part, 400, 4)}))
        store.prepare_snapshot(part, slot.folder(), canonical=False)
    assert values_of(store, 400) == list(range(400))
    return slot.factory.metrics()["bloom-filter-useful"]


def test_a_read_does_not_look_into_files_without_its_key(make_slot):
    counted = {"native_metrics": ("bloom-filter-useful",)}
    # A key of the oldest file is looked for in three others, one of the next in two, …; few are taken for there.
    assert filtered(make_slot(**counted)) > 0.9 * 100 * (3 + 2 + 1)
    assert filtered(make_slot(**counted, options=WITHOUT)) == 0


def test_filters_count_against_managed_memory(make_slot):
    """They are blocks of the one cache, which is what the slot promises to bound."""
    slot = make_slot()
    commit(store := slot.store(), cells.values({1: 1}))
    assert "cache_index_and_filter_blocks=true" in options_of(store.database().path)


def cached_for_one_key(make_slot, options) -> int:
    """Bytes of blocks that one read brings in, of a merged file of 240,000 keys."""
    source, slot = make_slot(options=options), make_slot(options=options)
    store = source.store()
    commit(store, cells.values({key: key for key in range(240_000)}))
    store.database().flush()
    store.database().families()["op/total"].compact()
    restored = slot.restored(store.prepare_snapshot(1, source.folder(), canonical=False))
    assert values_of(restored, 1) == [0]
    memory = slot.factory.memory()
    return (
        memory["cache"] - memory["write_buffers"]
    )  # these are charged to the cache: a filter in each memtable


def test_a_read_brings_in_a_part_of_a_large_files_index_and_filter(make_slot):
    assert cached_for_one_key(make_slot, PARTS) < cached_for_one_key(make_slot, WHOLE) / 2


@pytest.mark.parametrize(("before", "after"), [(BEFORE, PARTS), (PARTS, BEFORE)], ids=["to new", "and back"])
def test_state_of_the_defaults_before_is_read_with_these_and_back(make_slot, before, after):
    old, new = make_slot(options=before), make_slot(options=after)
    store = old.store()
    commit(store, cells.values({key: key for key in range(1000)}))
    moved = new.restored(store.prepare_snapshot(1, old.folder(), canonical=False))
    assert values_of(moved, 1001) == [*range(1000), None]
    commit(moved, cells.values({key: -key for key in range(0, 1000, 2)}))
    back = old.restored(moved.prepare_snapshot(2, new.folder(), canonical=False))
    expected = [-key if key % 2 == 0 else key for key in range(1000)]
    assert values_of(moved, 1000) == values_of(back, 1000) == expected


# ---- overlays on disk


def options_of_a_spill(slot) -> str:
    folder = slot.folder()
    spill = slot.factory.create_spill({0: slot.store()}, [0] * 128, folder)
    spill.add([cells.values({"a": "b"}, cells.NAMES)], {"a": 1})
    text = options_of(folder / "db")
    return text[text.index('[CFOptions "op/names"]') :]


def test_an_overlay_on_disk_is_neither_made_smaller_nor_merged_at_once(slot):
    found = options_of_a_spill(slot)
    assert "compression=kNoCompression" in found
    assert "level0_file_num_compaction_trigger=32" in found
    assert "filter_policy=bloomfilter" in found


@pytest.mark.parametrize("text", ["SNAPPY_COMPRESSION", "ZSTD_COMPRESSION"])
def test_what_a_key_says_holds_for_overlays_too(make_slot, text):
    slot = make_slot(options={"compression.per.level": text})
    name = {"SNAPPY_COMPRESSION": "kSnappyCompression", "ZSTD_COMPRESSION": "kZSTD"}[text]
    assert f"compression={name}" in options_of_a_spill(slot)


def test_what_a_factory_says_holds_for_overlays_too(make_slot):
    slot = make_slot(options_factory=f"{FACTORIES}:{options_factories.NeverDone.__name__}")
    assert "level0_file_num_compaction_trigger=10000" in options_of_a_spill(slot)
