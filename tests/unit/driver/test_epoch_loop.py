"""The position of a run over bounded input."""

from __future__ import annotations

from pathlib import Path

from sparkstate.driver import epoch_loop


def test_a_run_without_rows_has_planned_nothing(tmp_path: Path) -> None:
    """Spark makes the folder with the query: the second run in a row that found no rows failed for ever."""
    assert epoch_loop.newest_planned(tmp_path) is None
    (tmp_path / "offsets").mkdir()
    assert epoch_loop.newest_planned(tmp_path) is None
    for name in ("9", "10", ".10.crc", "README"):
        (tmp_path / "offsets" / name).write_text("")
    assert epoch_loop.newest_planned(tmp_path) == 10
