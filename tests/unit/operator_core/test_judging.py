"""Specs that the schema lets through: each comes to pods, or to a sentence that says why not."""

from __future__ import annotations

import dataclasses
import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scene.decisions import NOW, acts, job, pod, revision, running_status
from support.specs import hostile

from sparkstate_operator import actions, clock, judging, observe, observed, plan, reconcile
from sparkstate_operator.config import Config
from sparkstate_operator.core import revisions, templates
from sparkstate_operator.decide import decide
from sparkstate_operator.objects import children, driver, executor
from sparkstate_operator.objects.parts import Context


def limited(role: str, **limits: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": role, "resources": {"limits": limits}}]}}


@pytest.mark.parametrize("role", ["driver", "executor"])
@pytest.mark.parametrize(
    ("template", "told"),
    [
        pytest.param(
            limited("ROLE", memory="4GB"),
            "spec.containers[0].resources.limits.memory: is not a quantity; write it as 512Mi or 4Gi (it is '4GB')",
            id="a quantity of another world",
        ),
        pytest.param(
            limited("ROLE", memory=True), "resources.limits.memory: is not a quantity", id="a boolean"
        ),
        pytest.param(
            {"spec": {"containers": {}}}, "spec.containers: must be a list (it is an object)", id="no list"
        ),
        pytest.param(
            {"spec": {"containers": ["x"]}}, "spec.containers[0]: must be an object with a name", id="a text"
        ),
        pytest.param({"spec": {"containers": [{}]}}, "spec.containers[0].name: is missing", id="no name"),
        pytest.param(
            {"spec": {"volumes": [{"name": []}]}}, "spec.volumes[0].name: must be a string", id="a list"
        ),
        pytest.param({"spec": "x"}, "spec: must be an object", id="a spec that is a text"),
        pytest.param(
            {"metadata": {"labels": ["x"]}}, "metadata.labels: must be an object", id="labels in a list"
        ),
        pytest.param({"spec": {"tolerations": "all"}}, "spec.tolerations: must be a list", id="tolerations"),
        pytest.param(
            {"spec": {"tolerations": [{"key": {}}]}}, "tolerations[0].key: must be a string", id="their key"
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "ROLE", "resources": {"limits": "4Gi"}}]}},
            "resources.limits: must be an object",
            id="limits that are a text",
        ),
        pytest.param(
            {"spec": {"securityContext": "1001"}},
            "spec.securityContext: must be an object",
            id="a security context of the pod that is a number",
        ),
        pytest.param(
            {"spec": {"terminationGracePeriodSeconds": "2m"}},
            "spec.terminationGracePeriodSeconds: must be a whole number",
            id="a grace period with a unit",
        ),
    ],
)
def test_a_template_that_cannot_be_read_is_named_with_its_remedy(
    role: str, template: dict[str, Any], told: str
) -> None:
    filled = json.loads(json.dumps(template).replace("ROLE", role))
    found, why = judging.judge(job(deployment="cluster", **{f"{role}Template": filled}), Config())
    assert found is None
    assert f"spec.{role}Template" in why
    assert told in why


CONFIG = {"configMap": {"name": "mine"}}


@pytest.mark.parametrize(
    ("role", "volume", "more", "clash"),
    [
        ("driver", {"name": "token", "secret": {"secretName": "mine"}}, {}, True),
        ("executor", {"name": "token", "secret": {"secretName": "mine"}}, {}, True),
        ("driver", {"name": "job", **CONFIG}, {}, True),
        ("executor", {"name": "job", **CONFIG}, {}, False),
        ("driver", {"name": "code", **CONFIG}, {}, False),
        ("driver", {"name": "code", **CONFIG}, {"pythonFile": None, "configMapRef": {"name": "c"}}, True),
        ("executor", {"name": "code", **CONFIG}, {"pythonFile": None, "configMapRef": {"name": "c"}}, True),
        ("driver", {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, {}, False),
        ("driver", {"name": "tmp", "hostPath": {"path": "/tmp"}}, {}, True),
        ("executor", {"name": "work", "persistentVolumeClaim": {"claimName": "c"}}, {}, True),
        ("driver", {"name": "certificates", **CONFIG}, {}, False),
    ],
    ids=lambda one: one if isinstance(one, str) else one.get("name", "") if isinstance(one, dict) else "",
)
def test_a_volume_that_is_called_as_one_of_ours_is_refused_by_its_name(
    role: str, volume: dict[str, Any], more: dict[str, Any], clash: bool
) -> None:
    template = {f"{role}Template": {"spec": {"volumes": [{"name": "first", "emptyDir": {}}, volume]}}}
    one = job(deployment="cluster", **template, **more)
    for name in [name for name, value in more.items() if value is None]:
        del one.spec[name]  # type: ignore[attr-defined]
    found, why = judging.judge(one, Config())
    if clash:
        assert f"spec.{role}Template.spec.volumes[1].name" in why
        assert "rename yours" in why
    else:
        assert why == ""
    assert (found is None) == clash


def test_the_names_that_are_refused_are_those_of_our_volumes() -> None:
    for more in ({}, {"localStorage": {"volumeClaimTemplate": {"spec": {}}}}):
        found, why = judging.judge(job(deployment="cluster", **more), Config())
        assert found is not None, why
        context = Context(job(), found, Config())
        built = {"driver": driver.pod(context, 1), "executor": executor.template(context, 1)}
        for role, made in built.items():
            kinds = {one["name"]: next(iter(one.keys() - {"name"})) for one in made["spec"]["volumes"]}
            assert templates.own_volumes(found.resolved, role) == kinds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({"spec": {"containers": None}}, id="containers"),
        pytest.param({"spec": None, "metadata": None}, id="everything"),
        pytest.param(limited("driver", memory=None), id="a limit"),
        pytest.param({"spec": {"tolerations": None, "volumes": None}}, id="lists"),
    ],
)
def test_null_in_a_template_is_as_if_it_were_not_there(template: dict[str, Any]) -> None:
    found, why = judging.judge(job(driverTemplate=template), Config())
    assert (why, found is None) == ("", False)
    assert found is not None
    plain, _ = judging.judge(job(), Config())
    assert plain is not None
    made, without = (driver.pod(Context(job(), one, Config()), 1)["spec"] for one in (found, plain))
    assert made == without


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("4e9", 4 * 10**9),
        (4294967296, 2**32),
        ("+1Gi", 2**30),
        ("-1", -1),
        ("1500m", 2),
        ("5n", 1),
        ("2E3", 2000),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(value: Any, size: int) -> None:
    assert templates.quantity_bytes(value) == size


def test_what_nobody_foresaw_is_told_in_its_own_words_and_logged_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the moon is in the way")

    monkeypatch.setattr(judging, "_rehearse", broken)
    with caplog.at_level(logging.ERROR):
        found, why = judging.judge(job(), Config())
    assert found is None
    assert "RuntimeError: the moon is in the way" in why
    assert caplog.records[0].exc_info is not None


@given(hostile.TEMPLATES, hostile.TEMPLATES, st.sampled_from(["local", "cluster"]))
@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a pod template of any shape",
    when="it is judged, and its pods are built",
    expected="pods, or SpecInvalid with field, value and remedy; never an exception",
)
def test_every_template_is_judged_by_field_and_what_is_accepted_can_be_built(
    driver_template: Any, executor_template: Any, deployment: str
) -> None:
    one = job(deployment=deployment, driverTemplate=driver_template, executorTemplate=executor_template)
    found, why = judging.judge(one, Config())
    if found is None:
        assert "cannot be turned into pods" not in why
        assert "Template" in why
        return
    context = Context(one, found, Config())
    names = [one["name"] for one in driver.pod(context, 3)["spec"]["containers"]]
    assert names.count("driver") == 1
    children.config_map(context, 3, actions.Start())


def test_a_deletion_is_judged_by_nobody() -> None:
    """Neither the spec nor the revision that runs can be read: the job goes all the same."""
    gone = job(running_status(), deleting=True, driverTemplate={"spec": {"containers": 5}})
    begun = decide(observed.ObservedState(gone, NOW, drivers=(pod(),)), {}, None, "", Config())
    assert begun.status["intent"]["action"] == "delete"
    gone = dataclasses.replace(gone, status=begun.status)
    asked = decide(observed.ObservedState(gone, NOW, drivers=(pod(),)), {}, None, "", Config())
    assert acts(asked, actions.DeletePod)
    done = decide(observed.ObservedState(gone, NOW), {}, None, "", Config())
    assert acts(done, actions.RemoveFinalizer)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"format": 2, "spec": {}}, id="of a later operator"),
        pytest.param({"format": 1}, id="with nothing in it"),
        pytest.param([], id="a list"),
    ],
)
def test_a_stored_revision_that_cannot_be_read_counts_as_lost(data: Any) -> None:
    assert observe.readable("orders-1", {"data": data}) is None
    assert observe.readable("orders-1", {}) is None
    kept = revisions.data(revision().resolved)
    assert observe.readable("orders-1", {"data": kept}) == plan.Revision("orders-1", revisions.read(kept))


def test_a_deletion_that_nothing_can_be_decided_of_ends_by_its_deadline() -> None:
    broken = running_status(conditions=[{"type": "Ready", "status": "Perhaps"}])
    gone = job(broken, deleting=True, deletion={"policy": "purge", "deadline": "30s"})
    seen = observed.ObservedState(gone, NOW, drivers=(pod(),))
    judge = reconcile.Reconciler(*[None] * 4, Config(), clock.SystemClock(), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Perhaps"):
        judge._decide(seen, {revision().name: revision()}, None, "")
    late = dataclasses.replace(seen, now=NOW + timedelta(seconds=30))
    decision = judge._decide(late, {revision().name: revision()}, None, "")
    assert acts(decision, actions.DeletePod)
    assert acts(decision, actions.RemoveFinalizer)
    assert decision.status == gone.status
    assert "Perhaps" in decision.notes[0].message
