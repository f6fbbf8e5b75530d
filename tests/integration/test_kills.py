"""SIGKILL in every phase of an epoch, a checkpoint and a restore, to slot, Python worker and driver; results exact.

``make test`` runs a sample of the kills, ``make faults`` all of them with both backends.
``tests/tidy/test_phases.py`` proves that none is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.drivers import lives
from support.drivers.lives import Kill, Victim, every_kill

from sparkstate.phases import CHECKPOINT_PHASES, EPOCH_PHASES, ProcessPhase

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

EXPECTED: Mapping[Victim, str] = {
    "slot": "all slots go back to the last checkpoint, the source with them; the same driver goes on; output exact",
    "worker": "Spark tries the task again; what the dead one fed never becomes state; output exact",
    "driver": "the next attempt finds the lineage by the job's name and restores its last checkpoint; output exact",
}
SAMPLE = {
    "rocksdb": (
        Kill("slot", ProcessPhase.CHECKPOINT_UPLOAD),
        Kill("worker", ProcessPhase.FEED),
        Kill("slot", ProcessPhase.COMMIT),
        Kill("driver", ProcessPhase.CHECKPOINT_COMMIT),
        Kill("driver", ProcessPhase.RESTORE_SETTLE),
        Kill("worker", ProcessPhase.COMMIT),
    ),
    "hashmap": (
        Kill("slot", ProcessPhase.CHECKPOINT_SYNC),
        Kill("slot", ProcessPhase.RESTORE),
        Kill("slot", ProcessPhase.FEED),
        Kill("worker", ProcessPhase.OUTPUT),
        Kill("driver", ProcessPhase.CHECKPOINT_PUBLISH),
    ),
}
a_life = functools.partial(lives.a_life, expected=EXPECTED)


FULL = [
    a_life(backend, name, every_kill(tuple(chosen)), pytest.mark.extra)
    for backend in ("hashmap", "rocksdb")
    for name, chosen in (
        ("epoch", EPOCH_PHASES),
        ("checkpoint", CHECKPOINT_PHASES),
        ("restore", lives.RESTORES),
    )
]


@pytest.mark.parametrize(
    ("backend", "kills"), [a_life(b, "sample", kills) for b, kills in SAMPLE.items()] + FULL
)
def test_processes_killed_one_after_another_change_nothing_of_the_result(
    tmp_path: Path, backend: str, kills: tuple[Kill, ...]
) -> None:
    lives.Life(tmp_path, backend).run(kills)
