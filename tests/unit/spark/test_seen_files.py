"""What is taken out of a file source's log, and what a later run compares with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkstate import errors
from sparkstate.spark import seen_files
from sparkstate.spark.seen_files import Forgotten, Remembered, SeenFiles

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


def test_files_older_than_the_horizon_go_and_those_of_the_last_entries_stay() -> None:
    content = b"\n".join([b"v1", *(entry(number) for number in range(10))])
    assert numbers(seen_files.remembered(content, 4000, 9)) == [4, 5, 6, 7, 8, 9]
    assert numbers(seen_files.remembered(content, 4000, 1)) == list(range(2, 10))
    assert seen_files.remembered(content, 0, 9) == content
    assert seen_files.remembered(b"v1", 4000, 9) == b"v1"


def test_a_log_is_shortened_when_its_compact_entry_has_doubled(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    looks: list[int] = []
    before = [100_000]

    def horizon() -> Forgotten:
        looks.append(before[0])
        return Forgotten(before[0], 500)

    seen = SeenFiles(tmp_path, lambda: [Remembered(0, horizon)])
    seen.check()
    compact(folder, 199)
    seen.forget()
    assert looks == [], "it is small"
    path = compact(folder, 399)
    seen.forget()
    assert numbers(path.read_bytes()) == list(range(100, 400))
    assert path.with_name(".399.compact.crc").read_bytes() == seen_files.checksums(path.read_bytes())
    assert json.loads((folder / "forgotten").read_bytes()) == {"before_ms": 100_000, "max_age_ms": 500}
    before[0] = 350_000
    path = compact(folder, 499, first=100)
    seen.forget()
    assert len(numbers(path.read_bytes())) == 400, "it has not doubled"
    path = compact(folder, 799, first=100)
    seen.forget()
    assert numbers(path.read_bytes()) == list(range(350, 800))
    assert looks == [100_000, 350_000]
    assert sorted(each.name for each in folder.iterdir() if each.name.startswith(".")) == [
        ".399.compact.crc",
        ".799.compact.crc",
    ]


def test_nothing_is_noted_where_nothing_was_forgotten(tmp_path: Path) -> None:
    seen = SeenFiles(tmp_path, lambda: [Remembered(0, lambda: Forgotten(0, 500))])
    seen.check()
    path = compact(tmp_path / "sources" / "0", 399)
    before = path.read_bytes()
    seen.forget()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_position_that_was_taken_before_keeps_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "0"
    path = compact(folder, 399)
    link = tmp_path / "link"
    link.hardlink_to(path)
    seen = SeenFiles(tmp_path, lambda: [Remembered(0, lambda: Forgotten(300_000, 500))])
    seen.check()
    seen.forget()
    assert len(numbers(link.read_bytes())) == 400
    assert len(numbers(path.read_bytes())) == 100


@pytest.mark.parametrize(("before_ms", "refused"), [(99_999, True), (-(2**63) + 5, True), (100_000, False)])
def test_a_source_that_remembers_less_far_back_is_refused(
    tmp_path: Path, before_ms: int, refused: bool
) -> None:
    folder = tmp_path / "sources" / "2"
    folder.mkdir(parents=True)
    (folder / "forgotten").write_text('{"before_ms":100000,"max_age_ms":500}')
    seen = SeenFiles(tmp_path, lambda: [Remembered(2, lambda: Forgotten(before_ms, 90_000))])
    if not refused:
        seen.check()
        return
    with pytest.raises(errors.RestoreBlocked, match=r"file source 2 .*90000 ms.*1970-01-01T00:01:40Z.*500ms"):
        seen.check()


def test_sources_are_compared_once(tmp_path: Path) -> None:
    times = []
    seen = SeenFiles(tmp_path, lambda: times.append(1) or ())  # type: ignore[func-returns-value]
    seen.check()
    seen.check()
    assert len(times) == 1
