"""``docs/reliability.md`` shows a full soak of each backend, and nothing in it grows."""

from __future__ import annotations

import re

import pytest
from support.repository import tree

from sparkstate_tools.soak import page

PAGE = (tree.ROOT / "docs" / "reliability.md").read_text()
SECTIONS = {section.name: section for section in page.sections(PAGE)}
RUN = re.compile(r": ([\d,]+) epochs, ([\d,]+) checkpoints begun.* The run ended on (\d{4}-\d\d-\d\d)\.")


def run(backend: str) -> tuple[int, int, str]:
    """(epochs, checkpoints, the day of its end)."""
    said = RUN.match(SECTIONS[backend].text.removeprefix(backend))
    assert said is not None, SECTIONS[backend].text.splitlines()[0]
    return int(said[1].replace(",", "")), int(said[2].replace(",", "")), said[3]


def test_the_page_is_what_the_tool_writes() -> None:
    assert page.render(list(SECTIONS.values())) == PAGE, "make soak ARGS=--page renews it"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_each_backend_went_through_the_epochs_and_checkpoints_that_features_md_claims(backend: str) -> None:
    epochs, checkpoints, _ = run(backend)
    assert epochs >= 20_000
    assert checkpoints >= 2_000


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_every_quantity_is_flat(backend: str) -> None:
    rows = [line.strip("| ").split("|") for line in SECTIONS[backend].text.splitlines() if line[:1] == "|"]
    verdicts = {row[0].strip(): row[-1].strip() for row in rows[2:]}
    assert len(verdicts) >= 20
    assert [title for title, verdict in verdicts.items() if verdict != "flat"] == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_sentences_above_the_tables_speak_of_these_runs(backend: str) -> None:
    assert f"The table `{backend}` is from a run of {run(backend)[2]}" in PAGE
