"""What is taken out of a file source's log, and what a later run compares with it."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path

import pytest

from sparkstate import errors
from sparkstate.spark import seen_files, source_log
from sparkstate.spark.seen_files import Forgotten, RememberedSource, SeenFiles

PATH = "file:///in/" + "x" * 200


def entry(number: int) -> bytes:
    return json.dumps({"path": f"{PATH}/{number}", "timestamp": number * 1000, "batchId": number}).encode()


def compact(folder: Path, last: int, first: int = 0) -> Path:
    """The compact entry ``last``, with a file in each entry."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{last}.compact"
    path.write_bytes(b"\n".join([b"v1", *(entry(number) for number in range(first, last + 1))]))
    return path


def numbers(content: bytes) -> list[int]:
    return [json.loads(line)["batchId"] for line in content.split(b"\n")[1:]]


def of(tmp_path: Path, *horizons: Forgotten, now_ms: int = 10**12, number: int = 0) -> SeenFiles:
    """A query with one file source, that has the next of ``horizons`` whenever it is asked."""
    left = list(horizons)
    seen = SeenFiles(tmp_path, lambda: [RememberedSource(number, lambda: left.pop(0))], lambda: now_ms)
    seen.begin()
    return seen


def noted(folder: Path) -> dict[str, int]:
    note: dict[str, int] = json.loads((folder / "forgotten").read_bytes())
    return note


def remembered(content: bytes, before_ms: int, up_to: int) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"\n".join(seen_files.remembered(lines, before_ms, up_to))


def checksums(content: bytes, piece: int) -> bytes:
    file = io.BytesIO()
    sums = source_log.Checksums(file)
    for at in range(0, len(content), piece):
        sums.add(content[at : at + piece])
    sums.close()
    return file.getvalue()


def test_files_older_than_the_horizon_go_and_those_of_the_last_entries_stay() -> None:
    content = b"\n".join([b"v1", *(entry(number) for number in range(10))])
    assert numbers(remembered(content, 4000, 9)) == [4, 5, 6, 7, 8, 9]
    assert numbers(remembered(content, 4000, 1)) == list(range(2, 10))
    assert remembered(content, 0, 9) == content
    assert remembered(b"v1", 4000, 9) == b"v1"


@pytest.mark.parametrize("piece", [1, 300, 512, 1300])
def test_checksums_do_not_depend_on_how_the_content_comes(piece: int) -> None:
    content = bytes(range(256)) * 5
    expected = [zlib.crc32(content[at : at + 512]) for at in (0, 512, 1024)]
    assert checksums(content, piece) == b"crc\0" + struct.pack(">i3I", 512, *expected)


def test_a_log_is_shortened_when_its_compact_entry_has_doubled(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    seen = of(tmp_path, Forgotten(-500, 500), Forgotten(100_000, 500), Forgotten(350_000, 500))
    seen.check()
    compact(folder, 199)
    seen.forget()
    compact(folder, 299)
    seen.forget()  # nothing is forgotten yet
    path = compact(folder, 599)
    seen.forget()
    assert numbers(path.read_bytes()) == list(range(100, 600))
    assert path.with_name(".599.compact.crc").read_bytes() == checksums(path.read_bytes(), 1000)
    assert noted(folder) == {"before_ms": 100_000, "max_age_ms": 500}
    path = compact(folder, 1000, first=100)
    seen.forget()
    assert len(numbers(path.read_bytes())) == 901, "it has not doubled"
    path = compact(folder, 1200, first=100)
    seen.forget()
    assert numbers(path.read_bytes()) == list(range(350, 1201))
    assert noted(folder)["before_ms"] == 350_000
    hidden = sorted(each.name for each in folder.iterdir() if each.name.startswith("."))
    assert hidden == [".1200.compact.crc", ".599.compact.crc"]


def test_a_log_is_shortened_also_where_no_life_doubles_it(tmp_path: Path) -> None:
    path = compact(tmp_path / "sources" / "0", 399)
    left: list[int] = []
    for life in range(1, 6):
        path = compact(path.parent, 400 + 200 * life, first=numbers(path.read_bytes())[0])
        seen = of(tmp_path, *[Forgotten(200_000 * life, 500)] * 2)
        seen.check()
        seen.forget()
        left.append(len(numbers(path.read_bytes())))
    assert left == [401] * 5


def test_nothing_is_noted_where_nothing_was_forgotten(tmp_path: Path) -> None:
    path = compact(tmp_path / "sources" / "0", 399)
    before = path.read_bytes()
    seen = of(tmp_path, Forgotten(-500, 500))
    seen.check()
    seen.forget()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_line_that_cannot_be_read_leaves_the_log_as_it_is(tmp_path: Path) -> None:
    path = compact(tmp_path / "sources" / "0", 399)
    path.write_bytes(before := path.read_bytes() + b"\nno file")
    seen = of(tmp_path, Forgotten(300_000, 500))
    seen.check()
    seen.forget()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_position_that_was_taken_before_keeps_its_file(tmp_path: Path) -> None:
    path = compact(tmp_path / "sources" / "0", 399)
    link = tmp_path / "link"
    link.hardlink_to(path)
    seen = of(tmp_path, Forgotten(300_000, 500))
    seen.check()
    seen.forget()
    assert len(numbers(link.read_bytes())) == 400
    assert len(numbers(path.read_bytes())) == 100


def test_a_file_with_a_time_to_come_does_not_make_older_ones_forgotten(tmp_path: Path) -> None:
    """Spark's horizon is that file's time less the age, and no file is new to it any more: whoever raises the age to
    get the missed ones back needs to know those that were read."""
    path = compact(tmp_path / "sources" / "0", 399)
    seen = of(tmp_path, Forgotten(10**10, 300_000), now_ms=400_000)
    seen.check()
    seen.forget()
    assert numbers(path.read_bytes()) == list(range(100, 400))
    assert noted(path.parent)["before_ms"] == 100_000


def test_the_note_never_goes_back(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    path = compact(folder, 399)
    (folder / "forgotten").write_text('{"before_ms":200000,"max_age_ms":500}')
    seen = of(tmp_path, Forgotten(0, 700), Forgotten(150_000, 700))
    seen.check()
    path = compact(folder, 899)
    seen.forget()
    assert len(numbers(path.read_bytes())) == 900
    assert noted(folder) == {"before_ms": 200_000, "max_age_ms": 500}


# The newest file of the position has 400,000 ms, and files before 100,000 ms are forgotten.
@pytest.mark.parametrize(
    ("max_age_ms", "refused"), [(300_000, False), (300_001, True), (2**63 - 1, True), (10, False)]
)
def test_a_source_that_would_remember_further_back_is_refused(
    tmp_path: Path, max_age_ms: int, refused: bool
) -> None:
    """The newest file of the position decides: files that came since move the source's own horizon on before it can be
    looked at, and the first epoch's files are chosen by the one before."""
    folder = tmp_path / "sources" / "2"
    compact(folder, 390)
    (folder / "391").write_bytes(b"v1\n" + entry(400))
    (folder / "392").write_bytes(b"v1\n" + entry(7))
    (folder / "forgotten").write_text('{"before_ms":100000,"max_age_ms":500}')
    seen = of(tmp_path, Forgotten(9_000_000, max_age_ms), number=2)
    (folder / "393").write_bytes(b"v1\n" + entry(9000))
    if not refused:
        seen.check()
        return
    with pytest.raises(
        errors.RestoreBlocked, match=rf"file source 2 .*{max_age_ms} ms.*1970-01-01T00:01:40Z.*500ms"
    ):
        seen.check()


def test_sources_are_compared_once(tmp_path: Path) -> None:
    times: list[int] = []
    seen = SeenFiles(tmp_path, lambda: times.append(1) or (), lambda: 0)  # type: ignore[func-returns-value]
    seen.check()
    seen.check()
    assert len(times) == 1
