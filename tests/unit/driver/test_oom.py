"""The kernel's word about processes that it ended for want of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkstate.driver.oom import OomKills

FORMS = {"v2": "low 0\nmax 12\noom 3\noom_kill {}\n", "v1": "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_kills_are_told_once_and_not_those_of_before(tmp_path: Path, form: str) -> None:
    counter = tmp_path / "counter"
    counter.write_text(form.format(4))
    kills = OomKills([tmp_path / "none", counter])
    assert kills.news() == ""
    counter.write_text(form.format(6))
    assert "killed 2 process(es)" in kills.news()
    assert "out of memory" not in kills.news()


def test_where_there_is_no_counter_nothing_is_told(tmp_path: Path) -> None:
    assert OomKills([tmp_path / "none"]).news() == ""
