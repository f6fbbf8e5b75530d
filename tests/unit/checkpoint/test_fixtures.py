"""Storage folders that older versions wrote, committed with the tests: every later version must restore them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.storage.checkpoints import JOB
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.checkpoint import Downloader, carry_out, decide_restore, open_snapshot, operator_parts
from sparkstate.checkpoint import metadata as codec
from sparkstate.log import LineageLog, find, framing
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.serde.types import Types
from sparkstate.spark import position, watermarks
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor
from sparkstate.storage import naming, open_store

FIXTURES = Path(__file__).parent / "fixtures"
V1 = {
    0: {
        "000001.sst": b"first table " * 10,
        "MANIFEST": b"manifest of shard 0" * 3,
        "CURRENT": b"MANIFEST\n",
    },
    1: {
        "000002.sst": b"second table " * 10,
        "MANIFEST": b"manifest of shard 1" * 3,
        "CURRENT": b"MANIFEST\n",
    },
}
V1_LATER = {**V1, 0: {**V1[0], "000003.sst": b"third table " * 10}}


@pytest.fixture
def v1(tmp_path):
    shutil.copytree(FIXTURES / "v1", tmp_path / "storage")
    return open_store(f"{tmp_path}/storage", create=False)


def no_other_storage(url):
    raise AssertionError(url)


def restore(root, opened=no_other_storage):
    lineage = find(root, JOB)
    state = LineageLog(lineage.store, ManualClock()).refresh()
    return carry_out(decide_restore(state, lineage.store.url, None, False), lineage, opened)


def contents(store, metadata, folder):
    downloader = Downloader(store)
    try:
        return {
            shard.shard: {
                name: path.read_bytes()
                for name, path in downloader.fetch(shard, folder / f"restored-{shard.shard}").items()
            }
            for shard in metadata.shards
        }
    finally:
        downloader.close()


def test_the_latest_checkpoint_of_a_version_1_folder_is_restored(v1, tmp_path):
    restored = restore(v1)
    assert restored.plan.kind == "checkpoint"
    assert (restored.metadata.checkpoint_id, restored.metadata.epoch) == (3, 30)
    assert contents(restored.store, restored.metadata, tmp_path) == V1_LATER


def test_the_watermark_of_a_version_1_folder_makes_the_same_rows_late(v1):
    """It was stored by the definition of before: a row at it was on time."""
    metadata = restore(v1).metadata
    assert not metadata.late_at_watermark
    assert metadata.sinks == ()
    fresh = watermarks.Watermarks((watermarks.SourceTime(0, None, 0),))
    restored = fresh.restored(watermarks.stored_in(metadata))
    assert restored.current == metadata.watermark - 1


def test_a_version_1_savepoint_is_found_by_its_place_and_opened(v1, tmp_path):
    state = LineageLog(find(v1, JOB).store, ManualClock()).refresh()
    (saved,) = state.savepoints
    assert saved.trigger_id == "trigger-1"
    url = naming.join_url(v1.url, "savepoints", naming.split_url(saved.url)[1])
    snapshot = open_snapshot(url, lambda url: open_store(url, create=False))
    assert contents(snapshot.store, snapshot.metadata, tmp_path) == V1


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_every_file_of_the_latest_checkpoint_is_needed_and_its_damage_is_found(tmp_path, damage):
    lineage = next(path.name for path in (FIXTURES / "v1").iterdir() if len(path.name) == 16)
    needed = ["chk-3/_metadata"]
    healthy = open_store(str(FIXTURES / "v1"), create=False)
    needed += sorted(restore(healthy).metadata.paths())
    assert len(needed) == 6
    for number, name in enumerate(needed):
        folder = tmp_path / str(number)
        shutil.copytree(FIXTURES / "v1", folder)
        path = folder / lineage / name
        data = path.read_bytes()
        path.unlink()
        if damage == "cut":
            path.write_bytes(data[:-1])
        elif damage == "changed":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises((errors.RestoreBlocked, errors.CorruptData), match=name):
            restore_all(open_store(str(folder), create=False), folder)


def restore_all(root, folder):
    restored = restore(root)
    contents(restored.store, restored.metadata, folder)
    downloader = Downloader(restored.store)
    downloader.read(restored.metadata.source_position)
    downloader.close()


def test_a_version_2_checkpoint_gives_back_its_source_position(tmp_path):
    """Of a source that had seen 600 files: the compact entry is a part of its own."""
    store = open_store(str(FIXTURES / "v2"), create=False)
    restored = codec.decode(store.get("chk-7/_metadata"), "chk-7/_metadata")
    assert store.get("chk-7/_metadata")[5] == 2
    downloader = Downloader(store)
    parts = {handle.name: downloader.read(handle) for handle in restored.source_files}
    archive = downloader.read(restored.source_position)
    downloader.close()
    assert position.seed(tmp_path / "query", archive, heartbeat=False, part=parts.__getitem__) == 151
    lines = (tmp_path / "query/sources/0/149.compact").read_text().splitlines()
    assert lines[0] == "v1" and lines[600].endswith('599.parquet","timestamp":1,"batchId":149}')


def test_a_version_3_checkpoint_gives_back_its_operator_state():
    """Of two slots: a list of each kind, and broadcast state, which the first slot has stored for both."""
    store = open_store(str(FIXTURES / "v3"), create=False)
    data = store.get("chk-9/_metadata")
    restored = codec.decode(data, "chk-9/_metadata")
    downloader = Downloader(store)
    parts = operator_parts.read(downloader, restored.operator_state, store.url)
    downloader.close()
    buffer = ListStateDescriptor("buffer", Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    rules = MapStateDescriptor("rules", Types.STRING(), Types.MAP(Types.STRING(), Types.LONG()))
    for slot in range(2):
        states = OperatorStates("alerts", operator_parts.dealt_to(slot, 2, parts))
        with states.at_once():
            elements = states.get_list_state(buffer).get()
            assert elements == [(f"row-{slot}-{number}", number / 2) for number in range(3 + slot)]
            assert states.get_union_list_state(ListStateDescriptor("owners", Types.LONG())).get() == [0, 1]
            found = dict(states.get_broadcast_state(rules).items())
            assert found == {"limit": {"amount": 500}, "off": None, "": {}}


def test_a_version_3_checkpoint_is_refused_by_a_reader_of_version_2():
    """Which would restore without the operator state, and delete its files as orphans."""
    data = (FIXTURES / "v3" / "chk-9" / "_metadata").read_bytes()
    with pytest.raises(
        errors.UnknownFormat, match=r"version 3, this sparkstate reads 1 to 2.*or a newer one"
    ):
        framing.unframe(codec.MAGIC, 2, data, "chk-9/_metadata")
