"""Specs at random: the operator answers every one, and the engine runs with what the operator accepts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from support.faults import tried
from support.scene import decisions
from support.specs import near

from sparkstate import errors, manifest
from sparkstate.manifest import schema
from sparkstate_operator import actions, judging, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import memory
from sparkstate_operator.decide import decide, deletion
from sparkstate_operator.objects import children, driver
from sparkstate_operator.objects.parts import Context

OF_THE_ENGINE = "spec.stateBackend.options"
"""What RocksDB's options may be, only the engine knows: its driver refuses them."""


def of(spec: Mapping[str, Any]) -> observed.Job:
    return dataclasses.replace(decisions.job(), spec=spec)


def answered(spec: Mapping[str, Any]) -> plan.Revision | None:
    """The operator's answer, which is one of its own; pods, decisions and the engine hold it to an acceptance."""
    found, why = judging.judge(of(spec), Config())
    decides(found, why, spec)
    if found is None:
        assert why.startswith("spec"), why
        assert "cannot be turned into pods" not in why
        return None
    context = Context(of(spec), found, Config())
    names = [one["name"] for one in driver.pod(context, 3)["spec"]["containers"]]
    assert names.count("driver") == 1
    children.standing(context)
    reads_the_same(found, children.config_map(context, 3, actions.Start())["data"]["job.yaml"])
    return found


def decides(wanted: plan.Revision | None, why: str, spec: Mapping[str, Any]) -> None:
    """For a new job, a running one and one that goes; each decision raises nothing."""
    runs = wanted or decisions.revision()
    pod = decisions.pod(revision=runs.name)
    status = decisions.running_status(revision=runs.name)
    gone_at = decisions.NOW - timedelta(hours=1)
    for status_, drivers, deleting_at in (
        ({}, (), None),
        (status, (pod,), None),
        (status, (), None),
        (status, (pod,), decisions.NOW),
        (status, (), gone_at),
    ):
        one = dataclasses.replace(of(spec), status=status_, deleting_at=deleting_at)
        seen = observed.ObservedState(one, decisions.NOW, drivers=drivers)
        decide(seen, {runs.name: runs}, wanted, why, Config())
        deletion.overdue(seen)


def reads_the_same(revision: plan.Revision, text: str) -> None:
    """The engine accepts the manifest, reads each value as the operator wrote it, and reckons the same memory."""
    loaded = manifest.load(text)
    assert loaded.spec == json.loads(text)["spec"]
    try:
        found = manifest.resolve(loaded, cluster="blue", in_cluster=True).settings
    except errors.SpecInvalid as error:
        if str(error).startswith(f"manifest: {OF_THE_ENGINE}: "):
            return
        raise
    wanted = [(pod.role, pod.count, pod.items) for pod in memory.sums(revision.resolved).pods]
    assert [(part.process, part.count, part.items) for part in manifest.memory_sum(found).parts] == wanted


@given(near.specs(schema.spec()))
@settings(max_examples=tried(150))
def test_every_spec_of_the_schema_is_answered_and_what_is_accepted_the_engine_reads(
    spec: dict[str, Any],
) -> None:
    answered(spec)


# The CRD of another version may have let through what ours refuses.
@given(near.beyond(schema.spec()))
@settings(max_examples=tried(150))
def test_every_spec_of_any_shape_is_answered_and_what_is_accepted_the_engine_reads(
    spec: dict[str, Any],
) -> None:
    answered(spec)
