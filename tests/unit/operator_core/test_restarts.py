"""When the next attempt follows a failure, and which failures count for that."""

from __future__ import annotations

import pytest
from support.scene.decisions import NOW, ended, job, look, pod, revision, running_status

from sparkstate_operator import observed
from sparkstate_operator.decide import restarts

FOR_EVER = {"strategy": "fixed-delay", "fixedDelay": {"attempts": 10**9, "delay": "5m"}}


@pytest.mark.parametrize("crashes", [1, 6, 1024, 1025, 100_000])
def test_a_container_that_crashes_for_days_is_left_to_the_kubelet_like_one_that_crashes_for_hours(
    crashes: int,
) -> None:
    """The kubelet never waits longer than this strategy. From the 1,025th crash on, each look raised."""
    spec = {"restart": FOR_EVER}
    wanted = revision(**spec)
    assert not restarts.kubelet_is_too_slow(wanted, crashes, [], NOW)
    loops = pod(
        revision=wanted.name,
        ready=False,
        waiting="CrashLoopBackOff",
        restarts=crashes,
        last_ended=ended(1, "SlotLost"),
    )
    status = {**running_status(), "revision": wanted.name}
    found = look(observed.ObservedState(job(status, **spec), NOW, drivers=(loops,)))
    assert (found.status["phase"], found.status["attempt"]) == ("Starting", 1)
