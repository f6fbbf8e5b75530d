"""Where RocksDB's options come from, who wins, and that RocksDB really got them (its own OPTIONS file)."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest
from support.backends import cells, options_factories
from support.backends.cells import commit
from support.backends.written_options import sections_of

from sparkstate import errors
from sparkstate.backends.rocksdb import effective, keys, memory, predefined
from sparkstate.backends.rocksdb.options import BlockBasedTableConfig, ColumnFamilyOptions, DBOptions
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate_spec import flink_tables

FACTORIES = "support.backends.options_factories"
UNMANAGED = {"managed_memory_bytes": None}


def resolve(**given):
    settings = StateBackendSettings(type="rocksdb", **given)
    factory = effective.load_options_factory(settings.options_factory) if settings.options_factory else None
    return effective.resolve(settings, memory.plan(settings), factory, [])


def options_file(store):
    """The newest OPTIONS file of a store as {section: {option: value}}."""
    commit(store, cells.values({1: 1}))
    return sections_of(store.database().path)


def parts(store):
    """DB options, and column family and table options of the state that the store holds."""
    sections = options_file(store)
    return (
        sections["DBOptions"],
        sections['CFOptions "op/total"'],
        sections['TableOptions/BlockBasedTable "op/total"'],
    )


# ---- filters of memtables


def filter_ratio(store):
    return float(parts(store)[1]["memtable_prefix_bloom_size_ratio"])


def test_the_memtables_of_a_slot_share_a_thirty_second_of_the_write_buffers_for_their_filters(make_slot):
    slot = make_slot(managed_memory_bytes=64 * MIB)
    stores = [slot.store(shard) for shard in range(4)]
    assert filter_ratio(stores[0]) == pytest.approx(1 / 32 / 4, abs=1e-6)
    assert parts(stores[0])[1]["memtable_whole_key_filtering"] == "true"


def test_a_memtable_of_its_own_size_has_a_thirty_second_of_it(make_slot):
    assert filter_ratio(make_slot(**UNMANAGED).store()) == pytest.approx(1 / 32)


def test_each_further_state_of_a_store_gets_a_smaller_filter():
    effective_options = resolve(managed_memory_bytes=64 * MIB)
    ratios = [
        effective_options.with_memtable_filters(8 * families).column["memtable_prefix_bloom_ratio"]
        for families in range(1, 21)
    ]
    assert 8 * sum(ratios) < 1 / 8, "twenty states take less than an eighth of the write buffers"
    assert effective_options.with_memtable_filters(0) is effective_options, "the default family is unused"


@pytest.mark.parametrize(
    "option", [{"memtable_prefix_bloom_ratio": 0.0}, {"memtable_whole_key_filtering": False}], ids=str
)
def test_a_job_that_sets_a_filter_of_memtables_gets_what_it_sets(option):
    effective_options = resolve(managed_memory_bytes=64 * MIB)
    chosen = dataclasses.replace(effective_options, column={**effective_options.column, **option})
    assert chosen.with_memtable_filters(8) is chosen


# ---- the four predefined sets, as RocksDB got them


def test_default_is_flinks_defaults_but_for_compaction_and_filter_and_never_syncs(make_slot):
    db, column, table = parts(make_slot(**UNMANAGED).store())
    assert db["use_fsync"] == "false"
    assert (db["max_background_jobs"], db["max_open_files"]) == ("2", "-1")
    assert (db["max_log_file_size"], db["keep_log_file_num"]) == (str(128 * 1024), "2")
    assert column["compaction_style"] == "kCompactionStyleUniversal"
    assert column["level0_file_num_compaction_trigger"] == "8"
    assert column["compression"] == "kSnappyCompression"
    assert column["target_file_size_base"] == str(64 * MIB)
    assert column["max_bytes_for_level_base"] == str(256 * MIB)
    assert column["write_buffer_size"] == str(64 * MIB)
    assert (column["max_write_buffer_number"], column["min_write_buffer_number_to_merge"]) == ("2", "1")
    assert (table["block_size"], table["metadata_block_size"]) == ("4096", "4096")
    assert table["filter_policy"] == "bloomfilter"


def test_spinning_disk_optimized_reaches_rocksdb(make_slot):
    slot = make_slot(predefined_options="SPINNING_DISK_OPTIMIZED", **UNMANAGED)
    db, column, _ = parts(slot.store())
    assert (db["max_background_jobs"], db["max_open_files"], db["use_fsync"]) == ("4", "-1", "false")
    assert column["compaction_style"] == "kCompactionStyleLevel"
    assert column["level_compaction_dynamic_level_bytes"] == "true"
    assert column["write_buffer_size"] == str(64 * MIB)


def test_spinning_disk_optimized_high_mem_reaches_rocksdb(make_slot):
    slot = make_slot(predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM", **UNMANAGED)
    db, column, table = parts(slot.store())
    assert (db["max_background_jobs"], db["max_open_files"], db["use_fsync"]) == ("4", "-1", "false")
    assert column["level_compaction_dynamic_level_bytes"] == "true"
    assert column["target_file_size_base"] == str(256 * MIB)
    assert column["max_bytes_for_level_base"] == str(1024 * MIB)
    assert column["write_buffer_size"] == str(64 * MIB)
    assert (column["max_write_buffer_number"], column["min_write_buffer_number_to_merge"]) == ("4", "3")
    assert table["block_size"] == str(128 * 1024)
    assert table["filter_policy"].startswith("bloomfilter")
    resolved = resolve(predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM", **UNMANAGED)
    assert resolved.table["block_cache_size"] == 256 * MIB


def test_flash_ssd_optimized_reaches_rocksdb(make_slot):
    slot = make_slot(predefined_options="FLASH_SSD_OPTIMIZED", **UNMANAGED)
    db, column, _ = parts(slot.store())
    assert (db["max_background_jobs"], db["max_open_files"], db["use_fsync"]) == ("4", "-1", "false")
    assert column["level_compaction_dynamic_level_bytes"] == "false"


def test_the_bloom_filter_of_high_mem_takes_bits_and_mode_from_the_keys():
    chosen = resolve(
        predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        options={"bloom-filter.bits-per-key": "14.5", "bloom-filter.block-based-mode": "true"},
    )
    assert (chosen.table["bloom_bits_per_key"], chosen.table["bloom_block_based"]) == (14.5, True)
    default = resolve(predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM")
    assert (default.table["bloom_bits_per_key"], default.table["bloom_block_based"]) == (10.0, False)
    assert resolve().table["bloom_bits_per_key"] == 10.0


def test_an_unknown_predefined_set_is_refused_with_the_choices():
    with pytest.raises(errors.SpecInvalid, match=r"'FAST'.*FLASH_SSD_OPTIMIZED"):
        resolve(predefined_options="FAST")
    assert set(predefined.SETS) == {
        "DEFAULT",
        "SPINNING_DISK_OPTIMIZED",
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        "FLASH_SSD_OPTIMIZED",
    }


# ---- configurable keys


def test_every_option_that_the_spec_may_have_is_read():
    assert {*keys.KEYS, *keys.OWN_KEYS, *keys.WITHOUT_EFFECT} == set(flink_tables.ROCKSDB_OPTIONS)


KEYS = [
    ("thread.num", "7", "db", "max_background_jobs", "7"),
    ("files.open", "200", "db", "max_open_files", "200"),
    ("log.max-file-size", "1mb", "db", "max_log_file_size", str(MIB)),
    ("log.file-num", "9", "db", "keep_log_file_num", "9"),
    ("compaction.style", "level", "column", "compaction_style", "kCompactionStyleLevel"),
    ("compaction.style", "NONE", "column", "disable_auto_compactions", "true"),
    ("compaction.level.use-dynamic-size", "true", "column", "level_compaction_dynamic_level_bytes", "true"),
    ("compression.per.level", "LZ4_COMPRESSION", "column", "compression", "kLZ4Compression"),
    (
        "compression.per.level",
        "NO_COMPRESSION;SNAPPY_COMPRESSION;ZSTD_COMPRESSION",
        "column",
        "compression_per_level",
        "kNoCompression:kSnappyCompression" + ":kZSTD" * 5,
    ),
    ("compaction.level.target-file-size-base", "3mb", "column", "target_file_size_base", str(3 * MIB)),
    ("compaction.level.max-size-level-base", "30 mb", "column", "max_bytes_for_level_base", str(30 * MIB)),
    ("writebuffer.size", "5mb", "column", "write_buffer_size", str(5 * MIB)),
    ("writebuffer.count", "6", "column", "max_write_buffer_number", "6"),
    ("writebuffer.number-to-merge", "2", "column", "min_write_buffer_number_to_merge", "2"),
    ("block.blocksize", "16kb", "table", "block_size", "16384"),
    ("block.metadata-blocksize", "8kb", "table", "metadata_block_size", "8192"),
]


@pytest.mark.parametrize(
    ("key", "text", "part", "option", "value"), KEYS, ids=[f"{key[0]}={key[1]}" for key in KEYS]
)
@pytest.mark.parametrize("prefix", ["", keys.PREFIX], ids=["short", "full"])
def test_every_configurable_key_reaches_rocksdb_in_both_spellings(
    make_slot, key, text, part, option, value, prefix
):
    # RocksDB merges fewer write buffers than there may be, and only LEVEL has a dynamic size of levels.
    more = {"writebuffer.number-to-merge": {"writebuffer.count": "4"}}
    more["compaction.level.use-dynamic-size"] = {"compaction.style": "LEVEL"}
    slot = make_slot(options={prefix + key: text, **more.get(key, {})}, **UNMANAGED)
    found = dict(zip(("db", "column", "table"), parts(slot.store()), strict=True))
    assert found[part][option] == value


def test_a_bloom_filter_can_be_switched_on(make_slot):
    slot = make_slot(options={"use-bloom-filter": "true", "bloom-filter.bits-per-key": "12"}, **UNMANAGED)
    assert parts(slot.store())[2]["filter_policy"].startswith("bloomfilter")


def test_the_logs_directory_can_be_chosen(make_slot, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    commit(make_slot(options={"log.dir": str(logs)}).store(), cells.values({1: 1}))
    assert list(logs.iterdir())


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("thread.num", "0", "larger than 0"),
        ("thread.num", "two", "whole number"),
        ("thread.num", "1025", "at most 1024"),
        ("writebuffer.size", "64 parsecs", "size such as 64mb"),
        ("writebuffer.size", "0", "larger than 0"),
        ("use-bloom-filter", "yes", "true or false"),
        ("bloom-filter.bits-per-key", "many", "a number"),
        ("log.dir", "relative/path", "absolute path"),
        ("compaction.style", "FIFO", "deletes the oldest state"),
        ("compaction.style", "sideways", "LEVEL, UNIVERSAL or NONE"),
        ("compression.per.level", "SNAPPY_COMPRESSION;MAGIC", "SNAPPY_COMPRESSION"),
        (keys.PREFIX + "writebufer.size", "1mb", "not a configurable key.*writebuffer.size"),
    ],
)
def test_a_wrong_key_or_value_is_refused_by_name(key, text, words):
    with pytest.raises(errors.SpecInvalid, match=words) as caught:
        keys.parse({key: text})
    assert key in str(caught.value)


def test_one_key_in_both_spellings_is_refused():
    with pytest.raises(errors.SpecInvalid, match="are the same key"):
        keys.parse({"thread.num": "1", keys.PREFIX + "thread.num": "2"})


@pytest.mark.parametrize("key", sorted(keys.WITHOUT_EFFECT))
def test_a_key_that_cannot_apply_answers_with_a_sentence(key):
    (notice,) = keys.parse({keys.PREFIX + key: "1"}).notices
    assert notice.startswith(f"{keys.PREFIX}{key} has no effect: ")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64mb", 64 * MIB), ("4 KB", 4096), ("1g", 1024 * MIB), ("17", 17), ("2kibibytes", 2048)],
)
def test_sizes_are_flinks(text, size):
    assert keys.parse_bytes("key", text) == size


# ---- the options factory, and the order of all of them


def test_keys_count_more_than_the_predefined_set():
    chosen = resolve(predefined_options="FLASH_SSD_OPTIMIZED", options={"thread.num": "9"}, **UNMANAGED)
    assert chosen.db["max_background_jobs"] == 9


def test_the_factory_counts_more_than_keys_and_predefined_set():
    chosen = resolve(
        predefined_options="FLASH_SSD_OPTIMIZED",
        options={"thread.num": "9", "writebuffer.size": "1mb", "block.cache-size": "1mb"},
        options_factory=f"{FACTORIES}:ExampleFactory",
        **UNMANAGED,
    )
    assert chosen.db["max_background_jobs"] == 3
    assert chosen.column["write_buffer_size"] == 5 * MIB
    assert chosen.table["block_cache_size"] == 7 * MIB


@pytest.mark.parametrize(
    "memory_of_slot", [{}, {"managed_memory_bytes": None, "fixed_memory_bytes": 256 * MIB}]
)
def test_managed_and_fixed_memory_win_over_all_three(memory_of_slot):
    chosen = resolve(
        predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        options={"writebuffer.size": "1mb", "writebuffer.count": "9", "block.cache-size": "1mb"},
        options_factory=f"{FACTORIES}:ExampleFactory",
        **memory_of_slot,
    )
    of_stores = 256 * MIB - 256 * MIB // 6 - 256 * MIB // 24
    assert chosen.column["write_buffer_size"] == of_stores // 3
    assert (chosen.column["max_write_buffer_number"], chosen.column["min_write_buffer_number_to_merge"]) == (
        2,
        1,
    )
    assert chosen.table["block_cache_size"] == int(2.5 * of_stores / 3)
    assert chosen.table["cache_index_and_filter_blocks"] is True
    # What is no memory stays as it was chosen.
    assert chosen.db["max_background_jobs"] == 3
    assert chosen.table["block_size"] == 128 * 1024


def test_flinks_example_factory_works_as_it_stands(make_slot):
    options = {options_factories.MyOptionsFactory.RESTART_INTERVAL: "8"}
    slot = make_slot(options=options, options_factory=f"{FACTORIES}:MyOptionsFactory", **UNMANAGED)
    db, _, table = parts(slot.store())
    assert db["use_fsync"] == "false"
    assert db["max_background_jobs"] == "4"
    assert table["block_restart_interval"] == "8"


def test_flinks_example_factory_has_a_default(make_slot):
    slot = make_slot(options_factory=f"{FACTORIES}:MyOptionsFactory", **UNMANAGED)
    assert parts(slot.store())[2]["block_restart_interval"] == "16"


def test_the_ratio_of_the_hash_index_builds_it(make_slot):
    slot = make_slot(options_factory=f"{FACTORIES}:HashIndexFactory", **UNMANAGED)
    table = parts(slot.store())[2]
    assert table["data_block_index_type"] == "kDataBlockBinaryAndHash"
    assert table["data_block_hash_table_util_ratio"].startswith("0.5")


def test_a_key_that_nobody_reads_is_said(make_slot, caplog):
    with caplog.at_level(logging.WARNING):
        make_slot(options={"my.custom.key": "1"})
    assert "nothing reads my.custom.key" in caplog.text


def test_handles_of_the_factory_are_closed_last(make_slot):
    before = options_factories.Closeable.closed
    slot = make_slot(options_factory=f"{FACTORIES}:ExampleFactory")
    commit(slot.store(), cells.values({1: 1}))
    assert options_factories.Closeable.closed == before
    slot.factory.close()
    assert options_factories.Closeable.closed == before + 1


def test_a_handle_that_cannot_be_closed_keeps_nothing_else_open(make_slot):
    before = options_factories.Closeable.closed
    slot = make_slot(options_factory=f"{FACTORIES}:UncloseableFactory")
    commit(slot.store(), cells.values({1: 1}))
    with pytest.raises(AttributeError, match="close"):
        slot.factory.close()
    assert options_factories.Closeable.closed == before + 1
    assert slot.factory._memory.cache is None


def test_a_factory_that_returns_nothing_is_named():
    with pytest.raises(errors.SpecInvalid, match=r"ForgetfulFactory\.create_db_options returned None"):
        resolve(options_factory=f"{FACTORIES}:ForgetfulFactory")


def test_an_option_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(errors.SpecInvalid, match=r"no option 'speed'.*use_fsync"):
        DBOptions().set_speed(11)
    with pytest.raises(AttributeError):
        DBOptions().speed


@pytest.mark.parametrize("wrong", ["4", True, 4.0])
def test_an_option_of_another_type_is_refused(wrong):
    with pytest.raises(errors.SpecInvalid, match="must be of type int"):
        DBOptions().set_max_background_jobs(wrong)


def test_a_table_config_changes_only_what_it_names():
    column = ColumnFamilyOptions(table=BlockBasedTableConfig({"block_size": 1, "format_version": 5}))
    column.set_table_format_config(BlockBasedTableConfig().set_block_size(2))
    assert column.table.values() == {"block_size": 2, "format_version": 5}


def test_every_option_that_can_be_recorded_is_one_of_rocksdicts(tmp_path: Path):
    """A name that rocksdict does not know would fail only in the slot, when the first store is opened."""
    import rocksdict

    from sparkstate.backends.rocksdb import native

    for name in DBOptions.known:
        assert hasattr(rocksdict.Options, native._OWN_SETTERS.get(name, f"set_{name}")), name
    own = {"compression_per_level"}
    for name in set(ColumnFamilyOptions.known) - own:
        assert hasattr(rocksdict.Options, f"set_{name}"), name
    own = {"block_cache_size", "no_block_cache", "bloom_bits_per_key", "bloom_block_based", "two_level_index"}
    for name in set(BlockBasedTableConfig.known) - own:
        assert hasattr(rocksdict.BlockBasedOptions, f"set_{name}"), name
