"""Objects of any content: each look comes to a decision, whatever people have written into snapshots and jobs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.scene.decisions import NOW, job, pod, revision, running_status
from support.specs import snapshots

from sparkstate_operator import (
    actions,
    clock,
    custom_resources,
    errors,
    kept_name,
    labels,
    managing,
    observed,
)
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide, snapshot
from sparkstate_operator.model.snapshot import StateSnapshotStatus
from sparkstate_operator.objects import commands

URI = "s3://bucket/state/savepoints/savepoint-1"
SAVED = st.sampled_from(
    [
        None,
        {"status": "IN_PROGRESS"},
        {"status": "COMPLETED", "location": URI, "epoch": 7},
        {"status": "FAILED"},
    ]
)
RESULTS = st.sampled_from(
    [{"ok": True, "epoch": 7}, {"ok": False, "reason": "CorruptData", "message": "damaged"}, {}]
)
LOOKS = st.lists(st.tuples(SAVED, RESULTS, st.booleans()), min_size=1, max_size=5)


def body(spec: dict[str, Any], notes: dict[str, str], marks: dict[str, str], **more: Any) -> dict[str, Any]:
    meta = {
        "name": "savepoint-1",
        "namespace": "shop",
        "uid": "s-1",
        "resourceVersion": "1",
        "creationTimestamp": clock.text(NOW),
        "finalizers": [labels.FINALIZER],
        "annotations": notes,
        "labels": marks,
    }
    return {"metadata": {**meta, **more.pop("meta", {})}, "spec": spec, **more}


def expanded(argument: str) -> str:
    """As the kubelet hands an argument to a container that has no variables: ``$$`` is one ``$``."""
    assert not re.search(r"(?<!\$)(\$\$)*\$\(", argument), (
        f"a variable of the container would fill {argument}"
    )
    return argument.replace("$$", "$")


def arguments(decision: actions.Decision, found: observed.Snapshot) -> Iterator[list[str]]:
    """Of the commands that it makes, as their containers get them."""
    for action in decision.actions:
        if isinstance(action, actions.CreateCommand):
            made = commands.job(
                commands.of_snapshot(action, found, "shop", "engine:1", "robot"), {"runAsUser": 185}
            )
            json.dumps(made)
            containers = made["spec"]["template"]["spec"]["containers"]
            (command,) = (one for one in containers if one.get("name") == "command")
            yield [expanded(one) for one in command["args"]]


@given(spec=snapshots.SPECS, notes=snapshots.ANNOTATIONS, marks=snapshots.LABELS, looks=LOOKS)
@settings(max_examples=tried(300))
def test_every_snapshot_comes_to_a_decision_whatever_it_holds(
    spec: dict[str, Any], notes: dict[str, str], marks: dict[str, str], looks: list[tuple[Any, Any, bool]]
) -> None:
    status: dict[str, Any] = {}
    done: tuple[observed.Command, ...] = ()
    gone_at = None
    for number, (saved, result, goes) in enumerate(looks):
        now = NOW + timedelta(minutes=number)
        gone_at = now if goes and gone_at is None else gone_at
        meta = {"deletionTimestamp": clock.text(gone_at)} if gone_at else {}
        found = custom_resources.snapshot_of(body(spec, notes, marks, status=status, meta=meta))
        report = observed.Report({"phase": "RUNNING"}, saved)
        seen = observed.ObservedSnapshot(found, now, job(running_status()), pod(), report, (), done)
        decision = snapshot.decide(seen, revision(), Config(mark="shop/operator"))
        for given_ in arguments(decision, found):
            assert given_[:1] == ["savepoints"]
            assert not spec.get("uri") or str(spec["uri"]) in given_ or URI in given_
        StateSnapshotStatus.model_validate_json(json.dumps(decision.status))
        status = dict(decision.status)
        made = [action for action in decision.actions if isinstance(action, actions.CreateCommand)]
        done = tuple(
            observed.Command(
                one.name, "t", "1", one.does, bool(result.get("ok")), not result.get("ok"), result, now
            )
            for one in made
        )


OWN = managing.Manager("shop", "operator")
CONFIG = Config(mark=OWN.text, cluster="green", cluster_id="cluster")
PERIODIC = {labels.JOB_UID: "uid-1", labels.SNAPSHOT_TYPE: labels.PERIODIC}
ITS_SNAPSHOTS = st.lists(
    st.tuples(snapshots.ANNOTATIONS, snapshots.LABELS, snapshots.SPECS, st.sampled_from(["", "Completed"])),
    max_size=4,
)


@given(notes=snapshots.ANNOTATIONS, marks=snapshots.LABELS, its=ITS_SNAPSHOTS)
@settings(max_examples=tried(150))
def test_every_job_comes_to_a_decision_whatever_its_annotations_and_those_of_its_snapshots_say(
    notes: dict[str, str], marks: dict[str, str], its: list[tuple[Any, Any, Any, str]]
) -> None:
    savepoints = {"interval": "1h", "maxAge": "1h", "maxCount": 1}
    wanted = revision(savepoints=savepoints)
    status = running_status(cluster="green", revision=wanted.name)
    one = dataclasses.replace(job(status, savepoints=savepoints), annotations=notes, labels=marks)
    found = tuple(
        custom_resources.snapshot_of(
            body(spec, its_notes, {**its_marks, **PERIODIC}, status={"phase": phase} if phase else {})
        )
        for its_notes, its_marks, spec, phase in its
    )
    seen = observed.ObservedState(one, NOW, drivers=(pod(revision=wanted.name),), snapshots=found)
    json.dumps(decide(seen, {wanted.name: wanted}, wanted, "", CONFIG).status)
    for about in (one, *found):
        assert managing.other_manager(about, "", OWN) != OWN
    assert kept_name.NAME.fullmatch(kept_name.of_job(CONFIG, one))
    with contextlib.suppress(errors.SpecInvalid):
        kept_name.pin(CONFIG, one)
