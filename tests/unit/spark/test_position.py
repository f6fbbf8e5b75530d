from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from sparkstate import errors
from sparkstate.spark import capture, position


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
    (folder / "sources/0" / "2").unlink(missing_ok=True)  # a batch is either compacted or not
    (folder / "sources/0" / ".2.crc").unlink(missing_ok=True)
    (folder / "sources/0" / "2.compact").write_text("v1\ncompacted")
    (folder / "sources/0" / ".2.compact.crc").write_bytes(b"crc")
    return folder


def taken(
    directory: Path, epoch: int, watermark_ms: int, *, heartbeat: bool, folders: tuple[int, ...] = (0,)
) -> capture.CapturedPosition:
    """Of a query with one source, unless ``folders`` says otherwise."""
    return capture.take(directory, epoch, watermark_ms, folders, heartbeat=heartbeat)


def seed(directory: Path, captured: capture.CapturedPosition, *, heartbeat: bool = False) -> int:
    """By way of what is stored."""
    stored = captured.read()
    parts = {part.name: part.packed() for part in stored.parts}
    return position.seed(directory, stored.archive, heartbeat=heartbeat, part=parts.__getitem__)


def seeded(tmp_path: Path, epoch: int, log_entries: int) -> Path:
    captured = taken(query_directory(tmp_path / "query", epoch, log_entries), epoch, 1234, heartbeat=False)
    assert seed(tmp_path / "seeded", captured) == epoch
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
    assert names == {"2.compact", ".2.compact.crc", "3", ".3.crc"}


def test_a_source_without_a_log_of_its_own_is_kept_whole(tmp_path: Path) -> None:
    folder = query_directory(tmp_path / "query", 1, 9)
    (folder / "offsets/1").write_text('v1\n{}\n{"topic":{"0":5}}')
    seed(tmp_path / "seeded", taken(folder, 1, 0, heartbeat=False))
    assert (tmp_path / "seeded/sources/0/8").exists()


def test_each_log_is_cut_at_the_entry_of_its_own_source(tmp_path: Path) -> None:
    """Spark has two lines of offsets for a source that is used twice, and one folder."""
    folder = query_directory(tmp_path / "query", 1, 2)
    (folder / "offsets/1").write_text('v1\n{}\n{"logOffset":1}\n{"logOffset":1}\n{"logOffset":5}\n77')
    for number, entries in ((1, 7), (2, 1)):
        (folder / f"sources/{number}").mkdir()
        for entry in range(entries):
            (folder / f"sources/{number}/{entry}").write_text("v1")
    seed(tmp_path / "seeded", taken(folder, 1, 0, heartbeat=True, folders=(0, 0, 1, 2)))
    found = {
        str(path.relative_to(tmp_path / "seeded/sources"))
        for path in (tmp_path / "seeded/sources").glob("[12]/*")
    }
    assert found == {f"1/{entry}" for entry in range(6)}


@pytest.mark.parametrize(
    ("entry", "told"),
    [('v2\n{}\n{"source":"0"}', "format 'v2'"), ("v1\n{}\n1\n2", "2 lines for 1 sources"), ("", "format ''")],
)
def test_offsets_whose_lines_are_not_the_sources_are_refused(tmp_path: Path, entry: str, told: str) -> None:
    folder = query_directory(tmp_path / "query", 1, 2)
    (folder / "offsets/1").write_text(entry)
    with pytest.raises(errors.DeclarationError, match=told):
        taken(folder, 1, 0, heartbeat=False)


def test_a_line_separator_of_unicode_within_an_offset_ends_no_line(tmp_path: Path) -> None:
    folder = query_directory(tmp_path / "query", 1, 2)
    entry = 'v1\n{}\n{"logOffset":1,"note":"one\u2028two\u0085three"}'
    (folder / "offsets/1").write_text(entry)
    seed(tmp_path / "seeded", taken(folder, 1, 0, heartbeat=False))
    assert (tmp_path / "seeded/offsets/1").read_text() == entry


def test_a_directory_is_never_seeded_twice(tmp_path: Path) -> None:
    captured = taken(query_directory(tmp_path / "query", 1, 2), 1, 0, heartbeat=False)
    seed(tmp_path / "seeded", captured)
    with pytest.raises(FileExistsError):
        seed(tmp_path / "seeded", captured)


def test_the_position_can_only_be_taken_within_its_epoch(tmp_path: Path) -> None:
    with pytest.raises(errors.StateError, match="offsets/9 is missing"):
        taken(query_directory(tmp_path / "query", 1, 2), 9, 0, heartbeat=False)


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
    assert capture.only_heartbeat(tmp_path, 1)
    assert not capture.only_heartbeat(tmp_path, 2)
    assert not capture.only_heartbeat(tmp_path, 0)


def test_the_heartbeat_is_left_out_and_begins_anew_where_it_is_wanted(tmp_path: Path) -> None:
    folder = query_directory(tmp_path / "query", 1, 2)
    (folder / "offsets/1").write_text('v1\n{}\n{"logOffset":1}\n77')
    (folder / "sources/1").mkdir()
    (folder / "sources/1/0").write_text("start of the heartbeat")
    archive = taken(folder, 1, 0, heartbeat=True, folders=(0, 1))
    seed(tmp_path / "bounded", archive)
    seed(tmp_path / "unbounded", archive, heartbeat=True)
    assert (tmp_path / "bounded/offsets/1").read_text() == 'v1\n{}\n{"logOffset":1}'
    assert (tmp_path / "unbounded/offsets/1").read_text() == 'v1\n{}\n{"logOffset":1}\n0'
    assert not (tmp_path / "unbounded/sources/1").exists()


def entries(folder: Path) -> set[str]:
    return {path.name for path in (folder / "sources/0").iterdir() if path.name[0] != "."}


def log_of(folder: Path, epochs: int, interval: int = 10, files_each: int = 30) -> Path:
    """The source log of so many epochs: each ``interval``-th entry holds all before it, and Spark keeps older ones."""
    query_directory(folder, epochs - 1, 0)
    log = folder / "sources/0"
    for path in log.iterdir():
        path.unlink()
    lines: list[str] = []
    for number in range(epochs):
        new = [
            f'{{"path":"file:///data/in/part-{number:06d}-{i:04d}.parquet","timestamp":1,"batchId":{number}}}'
            for i in range(files_each)
        ]
        lines += new
        compact = (number + 1) % interval == 0
        content = "v1\n" + "\n".join(lines if compact else new)
        name = f"{number}.compact" if compact else str(number)
        (log / name).write_text(content)
        (log / f".{name}.crc").write_bytes(b"crc")
    return folder


@pytest.mark.parametrize(
    ("epochs", "wanted"),
    [
        pytest.param(9, {str(n) for n in range(9)}, id="none is compact yet"),
        pytest.param(10, {"9.compact"}, id="the epoch's own entry is compact"),
        pytest.param(15, {"9.compact", "10", "11", "12", "13", "14"}, id="one compact, some after it"),
        pytest.param(34, {"29.compact", "30", "31", "32", "33"}, id="several compact ones"),
    ],
)
def test_the_newest_compact_entry_and_what_follows_say_all(
    tmp_path: Path, epochs: int, wanted: set[str]
) -> None:
    folder = log_of(tmp_path / "query", epochs)
    captured = taken(folder, epochs - 1, 0, heartbeat=False)
    seed(tmp_path / "seeded", captured)
    assert entries(tmp_path / "seeded") == wanted
    for name in wanted:
        for one in (name, f".{name}.crc"):
            path = f"sources/0/{one}"
            assert (tmp_path / "seeded" / path).read_bytes() == (folder / path).read_bytes()


def test_a_compact_entry_beyond_the_epoch_is_not_taken(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "query", 20)
    seed(tmp_path / "seeded", taken(folder, 17, 0, heartbeat=False))
    assert entries(tmp_path / "seeded") == {"9.compact", *(str(n) for n in range(10, 18))}


def test_what_spark_deletes_after_the_callback_is_still_read(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "query", 15)
    captured = taken(folder, 14, 0, heartbeat=False)
    for path in (folder / "sources/0").iterdir():
        path.unlink()
    seed(tmp_path / "seeded", captured)
    assert len(entries(tmp_path / "seeded")) == 6
    loaded = captured.loaded()
    captured.release()
    assert loaded.read().archive
    assert list(capture.links_of(folder).iterdir()) == []


def test_an_unchanged_compact_entry_is_the_same_part_for_each_later_position(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "query", 29, files_each=100)
    first = taken(folder, 22, 0, heartbeat=False).read()
    second = taken(folder, 28, 0, heartbeat=False).read()
    assert [part.identity for part in first.parts] == [part.identity for part in second.parts]
    assert len(first.parts) == 1 and len(first.parts[0].packed()) < len(first.parts[0].content) / 5


def test_a_small_position_is_what_older_versions_read(tmp_path: Path) -> None:
    folder = query_directory(tmp_path / "query", 3, 4)
    stored = taken(folder, 3, 0, heartbeat=False).read()
    assert stored.parts == ()
    assert set(msgspec.msgpack.decode(stored.archive)) == {"version", "epoch", "files"}
    assert msgspec.msgpack.decode(stored.archive)["version"] == 1


def test_a_position_that_an_older_version_wrote_is_seeded_whole(tmp_path: Path) -> None:
    """The file was written by the code before parts: 25 epochs, and both compact entries that Spark had kept."""
    old = Path(__file__).with_name("position-v1.msgpack").read_bytes()
    assert position.seed(tmp_path / "seeded", old, heartbeat=False) == 24
    assert entries(tmp_path / "seeded") == entries(log_of(tmp_path / "query", 25))
    compact = (tmp_path / "seeded/sources/0/19.compact").read_text().splitlines()
    assert len(compact) == 21 and "/in/0.parquet" in compact[1]


def test_a_part_that_is_damaged_or_missing_is_said_to_be(tmp_path: Path) -> None:
    stored = taken(log_of(tmp_path / "query", 29, files_each=100), 28, 0, heartbeat=False).read()
    for part, told in ((lambda name: b"nonsense", "is damaged"), (position._no_parts, "is not there")):
        with pytest.raises(errors.CorruptData, match=told):
            position.seed(tmp_path / "seeded", stored.archive, heartbeat=False, part=part)
    assert not (tmp_path / "seeded").exists()


def test_what_spark_is_still_writing_is_no_part_of_a_position(tmp_path: Path) -> None:
    """It is renamed at any moment, also between the listing and the link."""
    folder = query_directory(tmp_path / "query", 3, 4)
    for name in (".4.0c7d.tmp", "..4.0c7d.tmp.crc"):
        (folder / "sources/0" / name).write_bytes(b"half")
        (folder / "sources/state-of-its-own").mkdir(exist_ok=True)
        (folder / "sources/state-of-its-own" / name).write_bytes(b"half")
    (folder / "sources/0/kept.tmp").write_bytes(b"a source's own")
    captured = taken(folder, 3, 0, heartbeat=False)
    names = {Path(path).name for path in captured.linked}
    assert "3" in names and "kept.tmp" in names
    assert not [name for name in names if "0c7d" in name]


def test_the_newest_offsets_of_an_archive_are_a_line_for_each_use_of_a_source() -> None:
    entry = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":%d}\n-'
    files = {f"offsets/{epoch}": (entry % epoch).encode() for epoch in (9, 10)}
    archive = position.packed(10, {**files, "metadata": b"{}"}, {})
    assert position.offsets(archive) == ('{"logOffset":10}', "-")


@pytest.mark.parametrize("archive", [b"", b"\x80", b"\xc1", position.packed(0, {"metadata": b""}, {})])
def test_an_archive_without_offsets_is_damaged(archive: bytes) -> None:
    with pytest.raises(errors.CorruptData, match="stored source position"):
        position.offsets(archive)
