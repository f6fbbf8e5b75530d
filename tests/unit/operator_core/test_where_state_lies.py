"""Where a job's state lies, until an attempt has begun under another name: what deletes goes there, and is told so."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import Any

import pytest
from support.scene import decisions

from sparkstate_operator import actions, clock, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.decide import decide, deletion, snapshot
from sparkstate_operator.objects import commands, parts

WEST = Config(cluster="east", cluster_id="0000-kube-system", mark="ops/ours")
"""Of a release that was called west when its job began, and is told the name of another cluster since."""


def running(**status: Any) -> observed.Job:
    """A job of that release, whose state lies under its older name."""
    found = decisions.running_status(**{"cluster": "west", "selector": labels.pods_of("uid-1"), **status})
    return dataclasses.replace(decisions.job(found), annotations={labels.MANAGER: WEST.mark})


def looks_at(job: observed.Job, does: str) -> str:
    """The name in storage that a command is given."""
    context = parts.Context(job, decisions.revision(), WEST)
    command = commands.of_job(context, actions.CreateCommand("one", does, (does,), 600), "orders-1")
    return dict(command.environment)[labels.CLUSTER_VARIABLE]


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a release is told the name in storage of another cluster",
    when="its job runs under the older name, and is deleted with its data",
    expected="the job's own data is deleted, and nothing of the job of that name in the other cluster",
)
def test_what_deletes_goes_where_the_state_lies_until_an_attempt_has_begun_elsewhere() -> None:
    job = running()
    assert looks_at(job, "purge") == "west"
    assert looks_at(job, "restore-info") == "east", "it asks for the next attempt, which is to begin there"
    later = clock.text(decisions.NOW + timedelta(minutes=5))
    pause = {"action": "start", "attempt": 2, "notBefore": later}
    wanted = decisions.revision()

    def look(seen: observed.Job) -> observed.Job:
        around = observed.ObservedState(seen, decisions.NOW)
        status = decide(around, {wanted.name: wanted}, wanted, "", WEST).status
        return dataclasses.replace(seen, status=status)

    assert looks_at(look(running(intent=pause)), "purge") == "west", "the attempt has not begun"
    begun = look(running(intent={"action": "start", "attempt": 2}))
    assert looks_at(begun, "purge") == "east"


def test_a_savepoint_is_looked_for_where_the_state_lies() -> None:
    asked = observed.Snapshot(
        "one", "s-1", "1", 1, decisions.NOW, {"jobRef": {"name": "orders"}}, {}, {}, {}, ()
    )
    report = observed.Report({"phase": "RUNNING"})
    seen = observed.ObservedSnapshot(asked, decisions.NOW, running(), decisions.pod(), report)
    status = snapshot.decide(seen, decisions.revision(), WEST).status
    assert status["access"]["job"] == "west/shop/orders"
    # A deletion writes down what an older operator did not.
    ending = dataclasses.replace(
        asked,
        deleting_at=decisions.NOW,
        finalizers=(labels.FINALIZER,),
        status={"phase": "Triggered", "triggerId": "t-1", "jobUid": "uid-1"},
    )
    status = snapshot.decide(dataclasses.replace(seen, snapshot=ending), decisions.revision(), WEST).status
    assert status["access"]["job"] == "west/shop/orders"


def told_at_the_end(job: observed.Job, config: Config, policy: str, *, late: bool = False) -> str:
    """What is told of the name when the job's deletion ends."""
    began = decisions.NOW - timedelta(hours=1 if late else 0)
    intent = {"action": "delete", "since": clock.text(began), "policy": policy}
    gone = dataclasses.replace(
        job,
        status={**job.status, "phase": "Deleting", "intent": intent},
        deleting_at=began,
        spec={**job.spec, "deletion": {"policy": policy}},
    )
    name = naming.command_job(gone.name, gone.uid, "purge")
    done = observed.Command(name, "t", "1", "purge", not late, late, {"files": 1}, decisions.NOW)
    seen = observed.ObservedState(gone, decisions.NOW, commands=(done,))
    wanted = decisions.revision()
    decision = decide(seen, {wanted.name: wanted}, wanted, "", config)
    assert actions.RemoveFinalizer() in decision.actions
    return "; ".join(note.message for note in decision.notes if note.reason == "StateUnderOtherName")


@pytest.mark.parametrize("policy", ["retain", "savepoint"])
def test_who_deletes_a_job_that_has_another_name_hears_how_its_state_is_found_again(policy: str) -> None:
    told = told_at_the_end(running(), WEST, policy)
    assert "stays under the cluster's name west" in told
    assert "begins under east" in told
    pin = re.search(rf"{re.escape(labels.CLUSTER_KEPT)}: (\S+),", told)
    assert pin is not None
    again = dataclasses.replace(
        decisions.job(), uid="uid-2", annotations={labels.CLUSTER_KEPT: pin[1], labels.MANAGER: WEST.mark}
    )
    assert kept_name.of_job(WEST, again) == "west", "a new job with that annotation goes on"
    # A pin of one that may not read kube-system would hold for the old object alone.
    told = told_at_the_end(running(), dataclasses.replace(WEST, cluster_id=""), policy)
    assert told.endswith("create the job with restoreFrom")


def test_nothing_is_told_of_the_name_where_a_new_job_finds_the_state_or_there_is_none() -> None:
    assert told_at_the_end(running(cluster="east"), WEST, "retain") == ""
    assert told_at_the_end(running(), WEST, "purge") == ""
    assert "under the cluster's name west" in told_at_the_end(running(), WEST, "purge", late=True)
    seen = observed.ObservedState(dataclasses.replace(running(), deleting_at=decisions.NOW), decisions.NOW)
    forced = deletion.by_force(seen, WEST, "a defect")
    assert "StateUnderOtherName" in [note.reason for note in forced.notes]
