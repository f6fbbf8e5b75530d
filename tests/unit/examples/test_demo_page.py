import re
from collections import Counter
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from sparkstate_tools.demo import oracle, page, plots, recovery, report, scenario, watch

EVIDENCE = recovery.Evidence(3, 9, 1_000_000, 2, 4)


def sample(second, run="run 1", epoch=0, rows_per_s=3000.0):
    ends = [(1000 * (number + 1), 100 * (number + 1)) for number in range(120)]
    watermark = ends[min(epoch, 119)][0] - 3_600_001
    return watch.Sample(
        second * 1000, run, "RUNNING", epoch, watermark, rows_per_s, 40_000 * epoch, min(second, 120)
    )


def checkpoint(number, second, kind="checkpoint"):
    return {
        "id": number,
        "kind": kind,
        "status": "COMPLETED",
        "epoch": number * 5,
        "trigger_ms": second * 1000,
        "duration_ms": 200 + number * 7,
        "sync_pause_ms": 12,
        "state_bytes": 400_000 + 60_000 * number,
        "uploaded_bytes": 90_000,
    }


@pytest.fixture
def outcome(tmp_path):
    story = watch.Story(begun_ms=0)
    story.samples = [sample(second, epoch=second - 10) for second in range(12, 100)]
    story.samples += [sample(second, "run 2", epoch=60 + (second - 110) * 2) for second in range(112, 140)]
    story.checkpoints = {("run 1", number): checkpoint(number, 10 + number * 4) for number in range(1, 22)}
    story.checkpoints["run 1", 22] = checkpoint(22, 60, "savepoint")
    story.events = [
        watch.Event(60_000, "savepoint", "savepoint <half-way>"),
        watch.Event(61_000, "progress", "no"),
    ]
    made = scenario.Outcome(
        scenario.Options(output=tmp_path), story, rows=12_000, disorder=timedelta(minutes=29)
    )
    made.file_ends = [(1000 * (number + 1), 100 * (number + 1)) for number in range(120)]
    made.recoveries = [
        (
            recovery.Kill("slot-1", 11, "checkpoint-upload", 30_000, 1, 19, EVIDENCE),
            recovery.Return(2, 300, 6_500, 9_000, 16),
        ),
        (
            recovery.Kill("driver", 12, "commit", 75_000, 2, 61, EVIDENCE),
            recovery.Return(3, 4_000, 11_000, 14_000, 58),
        ),
    ]
    made.savepoint = {"epoch": 48, "location": "file:///savepoint"}
    made.restore_ms = 9_100
    made.ended_ms = 150_000
    same = oracle.Difference(10, 10)
    made.comparisons = {run: dict.fromkeys(oracle.COLUMNS, same) for run in ("run 1", "run 2")}
    return made


def test_the_text_ends_with_a_table_of_recoveries_and_pass(outcome):
    text = report.text(outcome)

    assert re.search(
        r"slot-1 \(kill -9\) +checkpoint-upload +30\.0 s, epoch 19 +epoch 15 +4 epochs +0\.3 s +6\.5 s", text
    )
    assert re.search(r"driver \(kill -9\) +commit .* 11\.0 s +14\.0 s", text)
    assert "2 → 3 slots" in text
    assert text.splitlines()[-1].startswith("PASS: 12,000 rows")


def test_one_different_output_makes_it_fail(outcome):
    outcome.comparisons["run 2"]["grounded"] = oracle.Difference(10, 9, missing=Counter([("N1",)]))

    assert not outcome.passed
    assert report.text(outcome).splitlines()[-1].startswith("FAIL")
    assert "DIFFERENT" in report.text(outcome)


def test_a_missing_comparison_or_recovery_makes_it_fail(outcome):
    complete = outcome.recoveries
    outcome.recoveries = complete[:1]
    assert not outcome.passed

    outcome.recoveries = complete
    del outcome.comparisons["run 2"]
    assert not outcome.passed


def test_rows_read_are_those_of_the_files_behind_the_watermark(outcome):
    assert plots.rows_read(sample(20, epoch=0), outcome) == 100
    assert plots.rows_read(sample(20, epoch=41), outcome) == 4_200
    late = watch.Sample(0, "run 1", "RUNNING", 1, scenario.END_OF_INPUT_WATERMARK, 0, 0, 0)
    assert plots.rows_read(late, outcome) == 12_000


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = Counter()
        self.loaded = []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.loaded += [
            value for name, value in attrs if name in ("src", "href", "xlink:href") and "#" not in value[:1]
        ]


def test_the_page_is_one_file_with_four_plots_that_loads_nothing(outcome, tmp_path):
    page.write(outcome, tmp_path / "index.html")

    html = (tmp_path / "index.html").read_text()
    parsed = _Page()
    parsed.feed(html)
    assert parsed.tags["svg"] == 4
    assert parsed.tags["script"] == 0
    assert parsed.loaded == []
    assert "url(http" not in html
    assert "savepoint &lt;half-way&gt;" in html
    assert "kill -9 slot-1" in html
