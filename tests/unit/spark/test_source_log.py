"""The log that a file source begins with has the compact entry that Spark will look for."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.spark import source_log


def line(number: int) -> str:
    return f'{{"path":"file:///in/{number}","timestamp":{number}000,"batchId":{number}}}'


def write_log(folder: Path, last: int, interval: int) -> None:
    """A position's log: the newest compact entry up to ``last``, and each batch after it."""
    folder.mkdir(parents=True)
    compact = (last + 1) // interval * interval - 1
    if compact >= 0:
        everything = [line(number) for number in range(compact + 1)]
        (folder / f"{compact}.compact").write_text("\n".join(["v1", *everything]))
        (folder / f".{compact}.compact.crc").write_bytes(b"of another time")
    for number in range(compact + 1, last + 1):
        (folder / str(number)).write_text("\n".join(["v1", line(number)]))
        (folder / f".{number}.crc").write_bytes(b"of another time")


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name[0] != "."}


def compact_numbers(folder: Path) -> list[int]:
    return [source_log.number_of(path) for path in folder.glob("*.compact")]


def files_as_spark_reads_them(folder: Path, default: int) -> list[str]:
    """By ``CompactibleFileStreamLog.allFiles``: the compact entry, then each batch; a missing one fails."""
    last = max(source_log.number_of(path) for path in folder.iterdir() if path.name[0] != ".")
    interval = source_log.interval_of(compact_numbers(folder), default)
    compact = (last + 1) // interval * interval - 1
    names = ([f"{compact}.compact"] if compact >= 0 else []) + [str(n) for n in range(compact + 1, last + 1)]
    return [each for name in names for each in (folder / name).read_text().split("\n")[1:]]


@given(st.integers(0, 130), st.integers(1, 21), st.integers(1, 21))
@example(89, 20, 10)
@example(15, 20, 4)
@example(116, 97, 10)
def test_whatever_interval_a_log_was_written_with_spark_reads_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, last: int, written: int, default: int
) -> None:
    folder = tmp_path_factory.mktemp("log") / "0"
    write_log(folder, last, written)
    source_log.align(folder, default)
    assert files_as_spark_reads_them(folder, default) == [line(number) for number in range(last + 1)]
    before = content_of(folder)
    source_log.align(folder, default)
    assert content_of(folder) == before


@pytest.mark.parametrize(
    ("newest", "default", "interval"),
    [
        pytest.param(19, 10, 10, id="one name alone would double it"),
        pytest.param(99_729, 15, 10, id="Spark would take 9,973"),
        pytest.param(99_729, 10, 10, id="fits"),
        pytest.param(23, 10, 12, id="12 is nearer than 8"),
        pytest.param(96, 10, 97, id="a prime number has no other"),
        pytest.param(9, 1, 1, id="wanted"),
        pytest.param(0, 10, 1, id="one batch"),
        pytest.param(9_999_999, 1_000, 1_000, id="long"),
    ],
)
def test_the_spacing_stays_near_the_configured_one(
    tmp_path: Path, newest: int, default: int, interval: int
) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    (folder / f"{newest}.compact").write_text("v1")
    source_log.align(folder, default)
    assert source_log.interval_of(compact_numbers(folder), default) == interval


def test_the_spacing_is_the_configured_one_where_the_log_has_come_so_far(tmp_path: Path) -> None:
    write_log(tmp_path / "0", 116, 97)
    source_log.align(tmp_path / "0", 10)
    assert sorted(compact_numbers(tmp_path / "0")) == [99, 109]


@pytest.mark.parametrize("missing", [7, 13], ids=["before the wanted entry", "behind it"])
def test_a_log_with_a_hole_is_refused(tmp_path: Path, missing: int) -> None:
    write_log(tmp_path / "sources/0", 15, 20)
    (tmp_path / f"sources/0/{missing}").unlink()
    told = f"lacks the entry {missing} of the log in sources/0 and has 0 to 15"
    with pytest.raises(errors.CorruptData, match=told):
        source_log.align_all(tmp_path, 10)
    assert len(content_of(tmp_path / "sources/0")) == 15


def test_a_log_that_fits_is_left_as_it_is(tmp_path: Path) -> None:
    write_log(tmp_path / "0", 15, 10)
    before = {path: path.stat().st_ino for path in (tmp_path / "0").iterdir()}
    source_log.align(tmp_path / "0", 10)
    assert {path: path.stat().st_ino for path in (tmp_path / "0").iterdir()} == before


def test_what_is_written_has_its_checksums(tmp_path: Path) -> None:
    write_log(tmp_path / "0", 15, 20)
    source_log.align(tmp_path / "0", 4)
    (tmp_path / "0/11.compact").stat()
    content = (tmp_path / "0/15.compact").read_bytes()
    expected = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    checksums = (tmp_path / "0/.15.compact.crc").read_bytes()
    assert checksums == b"crc\0" + struct.pack(f">i{len(expected)}I", 512, *expected)
    assert not (tmp_path / "0/.14.crc").exists()


def test_only_logs_of_files_are_touched(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    write_log(sources / "2", 5, 20)
    for number, content in (("0", "v1\n0"), ("1", '0v1\n{"topic":{"0":1}}'), ("3", "v1")):
        (sources / number).mkdir()
        (sources / number / "0").write_text(content)
    (sources / "4").mkdir()
    source_log.align_all(tmp_path, 1)
    assert set(content_of(sources / "2")) == {"5.compact", "4.compact"}
    for number in ("0", "1", "3"):
        assert set(content_of(sources / number)) == {"0"}


@pytest.mark.parametrize("default", [0, -3])
def test_an_interval_that_spark_refuses_is_left_to_spark(tmp_path: Path, default: int) -> None:
    write_log(tmp_path / "sources/0", 5, 20)
    source_log.align_all(tmp_path, default)
    assert set(content_of(tmp_path / "sources/0")) == {str(number) for number in range(6)}
