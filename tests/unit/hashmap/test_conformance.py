"""The hash map backend passes the kit that every backend must pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkstate import conformance
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.testing import check_shard_store


@pytest.mark.parametrize("name", conformance.CHECKS)
def test_the_hash_map_backend_conforms(name: str, tmp_path: Path) -> None:
    kit = conformance.Kit(lambda _: HashMapStoreFactory(), tmp_path)
    try:
        conformance.CHECKS[name](kit)
    finally:
        kit.close()


def test_the_whole_kit_runs_in_one_call(tmp_path: Path) -> None:
    check_shard_store(lambda _: HashMapStoreFactory(), tmp_path)
