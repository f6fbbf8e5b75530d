"""The conformance kit on the RocksDB backend, in all its variants."""

from __future__ import annotations

import pytest
from support.storage.stores import ManualClock

from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.settings import StateBackendSettings
from sparkstate.testing import check_shard_store

VARIANTS = {
    "managed": {},
    "unmanaged": {"managed_memory_bytes": None},
    "heap timers": {"timer_service": "heap"},
    "tiny batches and caches": {"options": {"write-batch-size": "1b", "timer-service.cache-size": "1"}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_rocksdb_passes_the_conformance_kit(tmp_path, variant):
    settings = StateBackendSettings(type="rocksdb", **VARIANTS[variant])
    check_shard_store(lambda folder: RocksDBStoreFactory(settings, folder, ManualClock()), tmp_path)
