"""The soak's own way through a job: it feeds, breaks, checks and samples, and goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkstate_tools.soak import part, report


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.timeout(900)
def test_a_second_part_goes_on_where_the_first_one_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "SAMPLE_S", 2.0)
    monkeypatch.setattr(part, "HEAP_EVERY_S", 0.5)
    options = part.Options("hashmap", rows=50, keys=20)
    for epochs in (20, 65):
        assert part.Part(tmp_path, options, part.Goal(epochs, 1, minutes=10), print).run()
    (tmp_path / "soak.json").write_text('{"backend": "hashmap"}')
    story = report.read(tmp_path)
    assert story.epochs >= 40
    assert story.count("part") == 2
    assert sum(story.faults().values()) == 1
    complete = [sample["complete"] for sample in story.samples]
    assert complete == sorted(complete)
    assert complete[-1] > 30
    assert all(sample["driver_rss"] > 2**20 and sample["objects"] > 3 for sample in story.samples)
    assert any(2**20 < (sample["jvm_live_heap"] or 0) < 2**29 for sample in story.samples)
