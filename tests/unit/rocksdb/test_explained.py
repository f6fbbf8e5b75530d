"""What ``sparkstate explain`` tells of RocksDB's options is what the stores get."""

from __future__ import annotations

import pytest
from support.backends import cells
from support.backends.cells import commit
from support.backends.written_options import options_of

from sparkstate.backends.rocksdb import explained, keys
from sparkstate.settings import StateBackendSettings


def told(**given):
    rows = explained.rows(StateBackendSettings(type="rocksdb", **given))
    return {key: (value, origin) for key, value, origin in rows}


def test_every_key_has_a_value_and_an_origin():
    assert set(told()) == {*keys.KEYS, *keys.OWN_KEYS}
    assert told()["compaction.style"] == ("UNIVERSAL", "built-in")
    assert told()["compression.per.level"] == ("SNAPPY_COMPRESSION", "built-in")


def test_the_last_word_in_the_documented_order_is_the_one_that_is_told():
    given = {
        "predefined_options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        "options": {"thread.num": "9", keys.PREFIX + "block.cache-size": "1mb"},
    }
    managed, unmanaged = told(**given), told(**given, managed_memory_bytes=None)
    assert managed["thread.num"] == ("9", "options")
    assert managed["compaction.style"] == ("LEVEL", "SPINNING_DISK_OPTIMIZED_HIGH_MEM")
    assert managed["block.cache-size"][1] == "managed memory"
    assert unmanaged["block.cache-size"] == (str(1 << 20), "options")
    assert unmanaged["writebuffer.count"] == ("4", "SPINNING_DISK_OPTIMIZED_HIGH_MEM")


@pytest.mark.parametrize("options", [{}, {"block.blocksize": "16kb"}], ids=["built-in", "chosen"])
def test_what_is_told_is_what_rocksdb_has(make_slot, options):
    store = make_slot(options=options).store()
    commit(store, cells.values({1: 1}))
    text = options_of(store.database().path)
    section = text[text.index('TableOptions/BlockBasedTable "op/total"') :]
    assert f"block_size={told(options=options)['block.blocksize'][0]}\n" in section
