"""The driver's pod is taken away while the new version is checked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.checked import POINT, Asked, ended, look, stored
from support.scene.decisions import NOW, pod, running_status

TAKEN_AWAY = {
    "it is drained": {"deleting_at": NOW + timedelta(seconds=120)},
    "its node is lost": {
        "ready": False,
        "node_silent": True,
        "disrupted": "DeletionByTaintManager",
        "deleting_at": NOW - timedelta(seconds=600),
    },
}


@pytest.mark.parametrize("begun", [False, True], ids=["before the check", "while it runs"])
@pytest.mark.parametrize("fields", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_a_driver_that_is_taken_away_meanwhile_is_replaced_at_once_by_one_of_the_old_version(
    fields: dict[str, Any], begun: bool
) -> None:
    driver = pod(**fields)
    asked = Asked()
    first = (
        asked.look(asked.command(), drivers=(driver,))
        if begun
        else look(stored(), later_s=1, spec=asked.spec, drivers=(driver,))
    )
    assert "intent" not in first.status
    assert first.wait_s == 0
    second = look(dict(first.status), later_s=2, spec=asked.spec, drivers=(driver,))
    assert second.status["attempt"] == 2
    assert second.status["intent"]["action"] == "start"
    status = {**running_status(attempt=2, lastCheckpoint=POINT), "refused": first.status["refused"]}
    again = look(status, later_s=60, spec=asked.spec, drivers=(pod(attempt=2),))
    assert again.status["intent"]["action"] == "check", "the new version is asked once the old one runs"


def test_an_answer_that_has_come_counts_though_the_driver_is_taken_away() -> None:
    asked = Asked()
    done = asked.command(**ended(succeeded=True, ok=True, compatible=True, url=POINT["uri"], message=""))
    found = asked.look(done, drivers=(pod(deleting_at=NOW + timedelta(seconds=120)),))
    assert found.status["intent"]["action"] == "upgrade"
