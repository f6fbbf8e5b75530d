from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from sparkstate import errors
from sparkstate.spark import position


def query_directory(folder: Path, epoch: int, log_entries: int) -> Path:
    """A directory as Spark leaves it in the callback of ``epoch``, with a file source at log entry ``epoch``."""
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"x"}')
    (folder / ".metadata.crc").write_bytes(b"crc")
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    for n in range(epoch + 1):
        (folder / "offsets" / str(n)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{n}}}')
        (folder / "offsets" / f".{n}.crc").write_bytes(b"crc")
        if n < epoch:
            (folder / "commits" / str(n)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for n in range(log_entries):
        (folder / "sources/0" / str(n)).write_text(f"v1\nentry {n}")
        (folder / "sources/0" / f".{n}.crc").write_bytes(b"crc")
    (folder / "sources/0" / "2.compact").write_text("v1\ncompacted")
    return folder


def seeded(tmp_path: Path, epoch: int, log_entries: int) -> Path:
    archive = position.capture(
        query_directory(tmp_path / "query", epoch, log_entries), epoch, 1234, heartbeat=False
    )
    assert position.seed(tmp_path / "seeded", archive, heartbeat=False) == epoch
    return tmp_path / "seeded"


def test_a_seeded_directory_has_the_last_two_offsets_and_a_commit_of_the_epoch(tmp_path: Path) -> None:
    new = seeded(tmp_path, epoch=3, log_entries=4)
    assert sorted(p.name for p in (new / "offsets").iterdir()) == ["2", "3"]
    assert sorted(p.name for p in (new / "commits").iterdir()) == ["2", "3"]
    assert json.loads((new / "commits/3").read_text().splitlines()[1]) == {"nextBatchWatermarkMs": 1234}
    assert (new / "metadata").read_text() == '{"id":"x"}'


def test_source_log_entries_beyond_the_epoch_are_cut_with_their_checksums(tmp_path: Path) -> None:
    new = seeded(tmp_path, epoch=3, log_entries=7)
    names = {p.name for p in (new / "sources/0").iterdir()}
    assert names == {"0", "1", "2", "3", ".0.crc", ".1.crc", ".2.crc", ".3.crc", "2.compact"}


def test_a_source_without_a_log_of_its_own_is_kept_whole(tmp_path: Path) -> None:
    folder = query_directory(tmp_path / "query", 1, 9)
    (folder / "offsets/1").write_text('v1\n{}\n{"topic":{"0":5}}')
    position.seed(tmp_path / "seeded", position.capture(folder, 1, 0, heartbeat=False), heartbeat=False)
    assert (tmp_path / "seeded/sources/0/8").exists()


def test_a_directory_is_never_seeded_twice(tmp_path: Path) -> None:
    archive = position.capture(query_directory(tmp_path / "query", 1, 2), 1, 0, heartbeat=False)
    position.seed(tmp_path / "seeded", archive, heartbeat=False)
    with pytest.raises(FileExistsError):
        position.seed(tmp_path / "seeded", archive, heartbeat=False)


def test_the_position_can_only_be_taken_within_its_epoch(tmp_path: Path) -> None:
    with pytest.raises(errors.StateError, match="offsets/9 is missing"):
        position.capture(query_directory(tmp_path / "query", 1, 2), 9, 0, heartbeat=False)


@pytest.mark.parametrize("name", ["../outside", "/etc/outside"])
def test_an_archive_cannot_write_outside_of_its_directory(tmp_path: Path, name: str) -> None:
    bad = msgspec.msgpack.encode(position.Archive(1, 0, {name: b"x"}))
    with pytest.raises(errors.CorruptData, match="outside"):
        position.seed(tmp_path / "seeded", bad, heartbeat=False)


def test_a_position_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.UnknownFormat, match="version 99"):
        position.seed(
            tmp_path / "seeded", msgspec.msgpack.encode(position.Archive(99, 0, {})), heartbeat=False
        )
    with pytest.raises(errors.CorruptData, match="cannot be read"):
        position.seed(tmp_path / "seeded", b"\x00nonsense", heartbeat=False)


def test_an_epoch_that_only_the_heartbeat_started_is_recognised(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text('v1\n{}\n{"logOffset":4}\n7')
    (offsets / "1").write_text('v1\n{}\n{"logOffset":4}\n8')
    (offsets / "2").write_text('v1\n{}\n{"logOffset":5}\n9')
    assert position.only_heartbeat(tmp_path, 1)
    assert not position.only_heartbeat(tmp_path, 2)
    assert not position.only_heartbeat(tmp_path, 0)


def test_the_heartbeat_is_left_out_and_begins_anew_where_it_is_wanted(tmp_path: Path) -> None:
    folder = query_directory(tmp_path / "query", 1, 2)
    (folder / "offsets/1").write_text('v1\n{}\n{"logOffset":1}\n77')
    (folder / "sources/1").mkdir()
    (folder / "sources/1/0").write_text("start of the heartbeat")
    archive = position.capture(folder, 1, 0, heartbeat=True)
    position.seed(tmp_path / "bounded", archive, heartbeat=False)
    position.seed(tmp_path / "unbounded", archive, heartbeat=True)
    assert (tmp_path / "bounded/offsets/1").read_text() == 'v1\n{}\n{"logOffset":1}'
    assert (tmp_path / "unbounded/offsets/1").read_text() == 'v1\n{}\n{"logOffset":1}\n0'
    assert not (tmp_path / "unbounded/sources/1").exists()
