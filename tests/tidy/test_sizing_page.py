"""``docs/sizing.md`` has the constants of the code, and its worked examples are what the command prints."""

from __future__ import annotations

import pytest
import sizing_tables
from support.repository import tree

from sparkstate.sizing.known import KNOWN

PAGE = (tree.ROOT / "docs" / sizing_tables.PAGE).read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    assert sizing_tables.with_tables(PAGE) == PAGE, "stale: make reference"


def test_the_page_has_worked_examples_of_both_backends() -> None:
    commands = [line for line in PAGE.split("\n") if line.startswith("$ sparkstate explain job.yaml --size")]
    assert len(commands) >= 3
    assert {"rocksdb" in command for command in commands} == {True, False}


def test_a_changed_number_of_an_example_is_noticed() -> None:
    block = PAGE.index("$ sparkstate explain")
    number = PAGE.index("GiB", block)
    spoilt = f"{PAGE[:number]}9{PAGE[number:]}"
    assert sizing_tables.with_tables(spoilt) == PAGE


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="once each"):
        sizing_tables.with_tables(PAGE.replace("<!-- constants -->", ""))


def test_every_constant_has_a_meaning_a_source_and_a_day() -> None:
    found = set(sizing_tables.constants(KNOWN))
    assert len(found) > 30
    for constant in found:
        assert constant.meaning
        assert constant.source.command.startswith("make ")
        assert constant.source.date.startswith("20")
        assert constant.value > 0
    assert len({constant.meaning for constant in found}) == len(found)


def test_every_command_is_a_target_of_the_makefile() -> None:
    makefile = (tree.ROOT / "Makefile").read_text()
    for source in {constant.source for constant in sizing_tables.constants(KNOWN)}:
        assert f"\n{source.command.split()[1]}:" in makefile
