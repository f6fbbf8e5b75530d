"""The page of the soaks keeps what a run has no data for."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkstate_tools.soak import page, part

DAY = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)
OLD = [
    page.Section("hashmap", "hashmap: 1 epochs, 1 checkpoints begun.\n\n| what |"),
    page.Section("hashmap, quiet", "hashmap: 2 epochs, 2 checkpoints begun.\n\n| what |"),
    page.Section("rocksdb", "rocksdb: 3 epochs, 3 checkpoints begun.\n\n| what |"),
]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "reliability.md"
    path.write_text(page.render(OLD))
    return path


def soak(folder: Path, backend: str, epochs: int) -> Path:
    """What a soak of so many epochs leaves; its state does not grow."""
    folder.mkdir(parents=True)
    (folder / "soak.json").write_text(json.dumps(asdict(part.Options(backend, 1))))
    at_ms = int(DAY.timestamp() * 1000)
    lines = [
        {"at_ms": at_ms, "epoch": epoch, "checkpoint": epoch // 10, "complete": epoch, "state_bytes": 2**20}
        for epoch in range(0, epochs + 1, 100)
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder.parent


def test_a_page_gives_back_its_sections(written: Path) -> None:
    found = page.sections(written.read_text())
    assert found == OLD
    assert [section.backend for section in found] == ["hashmap", "hashmap", "rocksdb"]


def test_sections_of_backends_without_data_stay_and_those_of_others_are_renewed(
    written: Path, tmp_path: Path
) -> None:
    page.write(written, soak(tmp_path / "soak" / "hashmap", "hashmap", 21_000))
    new, kept = page.sections(written.read_text())
    assert kept == OLD[2]
    assert new.name == "hashmap"
    assert new.text.startswith("hashmap: 21,000 epochs, 2,100 checkpoints begun")
    assert "The run ended on 2026-01-31." in new.text
    assert new.text.splitlines()[-1].endswith("| flat    |")


def test_a_soak_without_a_sample_renews_nothing(written: Path, tmp_path: Path) -> None:
    folder = soak(tmp_path / "soak" / "rocksdb", "rocksdb", 0)
    (folder / "rocksdb" / "samples.jsonl").unlink()
    page.write(written, folder)
    assert page.sections(written.read_text()) == OLD


def test_the_first_page_needs_none_before_it(tmp_path: Path) -> None:
    path = tmp_path / "reliability.md"
    page.write(path, soak(tmp_path / "soak" / "rocksdb", "rocksdb", 1_000))
    assert [section.name for section in page.sections(path.read_text())] == ["rocksdb"]
