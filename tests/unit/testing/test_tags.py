"""Side outputs of a harness by their tags, as a job names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkstate import KeyedProcessFunction, OutputTag, Types
from sparkstate.testing import KeyedProcessHarness


class Passing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] < 0:
            raise ValueError("negative")
        yield value


@pytest.mark.parametrize("named", [OutputTag, str], ids=["by tag", "by id"])
def test_late_and_rejected_rows_are_found_however_their_output_is_named(named: Any) -> None:
    """A tag was a name that nobody could ask for: a test that no row is late passed whatever came."""
    options = {"late_tag": named("late"), "error_tag": named("bad"), "on_error": "side-output"}
    with KeyedProcessHarness(
        Passing(), key=lambda row: row[0], key_type=Types.STRING(), **options
    ) as harness:
        harness.process_watermark(10)
        harness.process_elements([(("a", 1), 5), (("a", -1), 11), (("a", 2), 12)])
        assert harness.output() == [("a", 2)]
        assert harness.side_output(OutputTag("late")) == harness.side_output("late") == [("a", 1)]
        assert len(harness.side_output(OutputTag("bad"))) == 1
