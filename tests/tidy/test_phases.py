"""Every phase of an epoch, a checkpoint and a restore has a test that kills slot, Python worker and driver in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.drivers import lives
from support.drivers.lives import Kill, Victim

from sparkstate.phases import ProcessPhase

KILLS = Path(__file__).parents[1] / "integration" / "test_kills.py"


class Collected:
    """What pytest collects from a file."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


def collected_lives(*options: str) -> list[Mapping[str, Any]]:
    """The parameters of the cases in ``test_kills.py``."""
    collected = Collected()
    arguments = ["--collect-only", "-qq", "-p", "no:cacheprovider", *options, str(KILLS)]
    assert pytest.main(arguments, plugins=[collected]) == 0
    return [item.callspec.params for item in collected.items]  # type: ignore[attr-defined]


def missing(
    phases: Iterable[ProcessPhase], covered: set[tuple[Victim, ProcessPhase]]
) -> set[tuple[Victim, ProcessPhase]]:
    """Combinations without a kill and without a reason why there is none."""
    return {(v, p) for p in phases for v in lives.VICTIMS} - covered - set(lives.IMPOSSIBLE)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_every_phase_has_a_kill_of_slot_worker_and_driver(backend: str) -> None:
    found = {
        (kill.victim, kill.phase)
        for life in collected_lives()
        if life["backend"] == backend
        for kill in life["kills"]
    }
    assert not missing(ProcessPhase, found), "add them to tests/integration/test_kills.py"
    assert not found & set(lives.IMPOSSIBLE)


def test_a_new_phase_without_kills_would_be_noticed() -> None:
    covered = {(kill.victim, kill.phase) for kill in lives.every_kill(tuple(ProcessPhase)[:-1])}
    newest = tuple(ProcessPhase)[-1]
    assert missing(ProcessPhase, covered) == {(victim, newest) for victim in lives.VICTIMS}


def test_for_every_phase_it_is_known_who_enters_it() -> None:
    assert set(lives.ENTERED_BY) == set(ProcessPhase)
    assert all(lives.ENTERED_BY.values())


def test_the_sample_of_every_run_has_each_victim_with_each_backend() -> None:
    sample = collected_lives("-m", "not extra")
    assert {(life["backend"], kill.victim) for life in sample for kill in life["kills"]} == {
        (backend, victim) for backend in ("hashmap", "rocksdb") for victim in lives.VICTIMS
    }


def test_a_victim_that_enters_the_phase_is_held_itself_and_others_die_beside_who_is() -> None:
    assert Kill("worker", ProcessPhase.FEED).holder == "worker"
    assert Kill("slot", ProcessPhase.FEED).holder == "slot-0"
    assert Kill("slot", ProcessPhase.CHECKPOINT_COMMIT).holder == "driver"
    assert Kill("driver", ProcessPhase.CHECKPOINT_SYNC).holder == "slot-0"
