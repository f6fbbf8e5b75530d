"""Before an upgrade stops a running attempt, its new version says whether it takes up the state."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene import decisions as scene
from support.scene.checked import NEWER, POINT, Asked, ended, look, stored
from support.scene.decisions import NOW, SPEC, acts, job, pod, revision, running_status

from sparkstate_operator import actions, clock, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import settings
from sparkstate_operator.decide import checking
from sparkstate_operator.objects import check, parts

NO = {
    "ok": True,
    "compatible": False,
    "url": POINT["uri"],
    "message": "state 'n' of operator 'count': its value type was LONG when it was stored and is now STRING",
}


def test_a_new_version_is_asked_before_the_old_one_is_stopped() -> None:
    asked = Asked()
    assert asked.begun.status["phase"] == "Running"
    assert asked.begun.status["intent"]["action"] == "check"
    assert asked.begun.check is not None, "the dry run comes first"
    assert asked.action.revision == revision(**NEWER).name
    assert asked.action.arguments == ()
    runs = asked.look(asked.command())
    assert (runs.status["phase"], runs.actions, runs.check) == ("Running", (), None)
    assert runs.wait_s is not None
    assert runs.wait_s <= checking.POLL_S


def test_one_that_takes_the_state_up_replaces_the_old_one_and_its_check_goes() -> None:
    asked = Asked()
    done = asked.command(**ended(succeeded=True, ok=True, compatible=True, url=POINT["uri"], message=""))
    found = asked.look(done)
    assert (found.status["phase"], found.status["intent"]["action"]) == ("Upgrading", "upgrade")
    assert acts(found, actions.DeleteCommand) == [actions.DeleteCommand(done)]


def test_one_that_does_not_leaves_the_old_one_running_and_says_state_field_and_types() -> None:
    asked = Asked()
    found = asked.look(asked.command(**ended(**NO)))
    assert (found.status["phase"], found.status["revision"]) == ("Running", revision().name)
    assert "intent" not in found.status
    assert acts(found, actions.DeletePod) == []
    (degraded,) = (one for one in found.status["conditions"] if one["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "UpgradeRefused")
    for word in ("'n'", "'count'", "value type", "LONG", "STRING", POINT["uri"]):
        assert word in degraded["message"]
    (note,) = (one for one in found.notes if one.reason == "UpgradeRefused")
    assert note.message == degraded["message"]
    assert found.status["refused"]["revision"] == revision(**NEWER).name
    later = look(dict(found.status), later_s=60, spec=asked.spec)
    assert (later.status["phase"], "intent" in later.status, later.check) == ("Running", False, None)


def test_a_refused_state_is_checked_again_in_case_the_image_came_anew() -> None:
    asked = Asked()
    status = dict(asked.look(asked.command(**ended(**NO))).status)
    again = look(status, later_s=checking.REFUSED_S + 5, spec=asked.spec)
    assert again.status["intent"]["action"] == "check"
    (action,) = acts(
        look(dict(again.status), later_s=checking.REFUSED_S + 6, spec=asked.spec), actions.CreateCheck
    )
    assert action.name != asked.action.name, "the old answer is nobody's"


FAILURES = {
    "storage": (
        {"ok": False, "reason": "StorageUnavailable", "message": "the bucket does not answer"},
        "bucket",
    ),
    "code": ({"ok": False, "reason": "DeclarationError", "message": "no such module"}, "no such module"),
    "killed": ({}, "left no message"),
    "hostile": ({"ok": True, "compatible": "yes"}, "left no message"),
}


@pytest.mark.parametrize(("result", "told"), FAILURES.values(), ids=FAILURES)
def test_one_that_cannot_answer_leaves_the_old_one_running_and_names_the_way_out(
    result: dict[str, Any], told: str
) -> None:
    asked = Asked()
    found = asked.look(asked.command(**ended(**result)))
    assert found.status["phase"] == "Running"
    assert told in found.status["refused"]["message"]
    assert "spec.upgradeCheck" in found.status["refused"]["message"]
    soon = look(dict(found.status), later_s=40, spec=asked.spec)
    assert soon.status["intent"]["action"] == "check"


UNKNOWN: dict[str, tuple[dict[str, Any], float]] = {
    "an older image": (ended(message="Error: No such command 'check'."), 5),
    "not begun": ({"pod": pod(phase="Pending", ready=False)}, 601),
    "no room": ({"pod": pod(phase="Pending", ready=False, unschedulable="0/3 nodes")}, 130),
    "no pod": ({}, 130),
}
SLOW = {"pod": pod(), "had_pod": True}


@pytest.mark.parametrize(("fields", "later_s"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_check_that_cannot_be_made_keeps_nobody_from_upgrading(
    fields: dict[str, Any], later_s: float
) -> None:
    asked = Asked()
    found = asked.look(asked.command(**fields), later_s)
    assert found.status["phase"] == "Upgrading"
    assert "StateNotChecked" in {note.reason for note in found.notes}


def made(at_s: float, **fields: Any) -> observed.Command:
    """A check as the API server has it, whose Job was made so long after its question was put."""
    meta = {"name": "c", "uid": "c-1", "resourceVersion": "1"}
    body = {"metadata": {**meta, "creationTimestamp": clock.text(NOW + timedelta(seconds=at_s))}}
    return dataclasses.replace(observed.command_of(body, {}), does="check", **fields)


LIMITS: dict[str, tuple[dict[str, Any], float, str]] = {
    "no pod": ({}, checking.ROOM_S, "Upgrading"),
    "no room": (
        {"pod": pod(phase="Pending", ready=False, unschedulable="0/3 nodes")},
        checking.ROOM_S,
        "Upgrading",
    ),
    "not begun": ({"pod": pod(phase="Pending", ready=False)}, checking.BEGIN_S, "Upgrading"),
    "slow": ({"pod": pod(), "had_pod": True}, checking.SLOW_S, "refused"),
    "no image": (
        {"pod": pod(phase="Pending", ready=False, waiting="ImagePullBackOff")},
        checking.PULL_S,
        "refused",
    ),
}


@pytest.mark.parametrize(("fields", "limit_s", "then"), LIMITS.values(), ids=LIMITS)
def test_a_job_that_is_made_late_has_as_long_as_any_other(
    fields: dict[str, Any], limit_s: float, then: str
) -> None:
    """The operator was away for so long that Kubernetes had removed the Job with its answer. The next Job counted as
    one without a pod since the first, and the version that it would have refused replaced the one that ran."""
    asked, late_s = Asked(), 4000.0
    command = made(late_s, name=asked.action.name, **fields)
    soon = asked.look(command, late_s + limit_s - 1)
    assert (soon.status["phase"], soon.status["intent"]["action"], soon.actions) == ("Running", "check", ())
    late = asked.look(command, late_s + limit_s + 1)
    assert then in (late.status["phase"], *late.status)


@pytest.mark.parametrize("made_s", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_a_clock_of_the_api_server_that_is_wrong_changes_nothing_about_a_job_that_is_made_in_time(
    made_s: float,
) -> None:
    asked = Asked()
    command = made(made_s, name=asked.action.name)
    assert asked.look(command, checking.ROOM_S - 1).status["phase"] == "Running"
    assert asked.look(command, checking.ROOM_S + 1).status["phase"] == "Upgrading"


def test_code_that_hangs_leaves_the_old_version_running() -> None:
    asked = Asked()
    assert "refused" not in asked.look(asked.command(**SLOW), 500).status
    found = asked.look(asked.command(**SLOW), 550)
    assert (found.status["phase"], "540 s" in found.status["refused"]["message"]) == ("Running", True)


@pytest.mark.parametrize("pods", [{}, {"had_pod": True}], ids=["its pod is gone", "its pod is there"])
def test_a_check_that_kubernetes_cut_off_while_nobody_looked_leaves_the_old_version_running(
    pods: dict[str, Any],
) -> None:
    """It hung, perhaps. It counted as one that had never begun, and the upgrade went on unchecked."""
    asked = Asked()
    assert asked.action.limit_s > checking.SLOW_S + 600
    found = asked.look(asked.command(failed=True, cut_off_s=asked.action.limit_s, **pods), 4000)
    assert (found.status["phase"], found.status["refused"]["tries"]) == ("Running", 1)


def test_a_check_whose_pod_waits_is_waited_for_until_its_time_is_over() -> None:
    asked = Asked()
    waiting = asked.command(pod=pod(phase="Pending", ready=False))
    assert asked.look(waiting, 599).status["phase"] == "Running"


def test_an_image_that_cannot_be_pulled_refuses_also_where_nobody_looked_in_time() -> None:
    asked = Asked()
    waiting = asked.command(pod=pod(phase="Pending", ready=False, waiting="ImagePullBackOff"))
    assert "ImagePullBackOff" in asked.look(waiting, 700).status["refused"]["message"]


def test_a_pod_whose_end_its_job_does_not_know_yet_is_waited_for() -> None:
    """The Job's controller is a moment behind the pod, which may have left no word."""
    asked = Asked()
    found = asked.look(asked.command(had_pod=True), 300)
    assert (found.status["phase"], found.actions) == ("Running", ())


def test_a_spec_that_its_pod_could_not_carry_is_not_checked() -> None:
    spec = {**NEWER, "params": {str(number): "x" * 8000 for number in range(20)}}
    found = look(stored(), spec=spec)
    assert found.status["phase"] == "Upgrading"
    (note,) = (one for one in found.notes if one.reason == "StateNotChecked")
    assert str(checking.SPEC_BYTES) in note.message


def test_room_may_come_in_time() -> None:
    asked = Asked()
    waiting = asked.command(pod=pod(phase="Pending", ready=False, unschedulable="0/3 nodes"))
    assert asked.look(waiting, 60).status["phase"] == "Running"


def test_an_image_that_cannot_be_pulled_leaves_the_old_one_running() -> None:
    asked = Asked()
    waiting = asked.command(pod=pod(phase="Pending", ready=False, waiting="ImagePullBackOff"))
    assert "refused" not in asked.look(waiting, 10).status
    found = asked.look(waiting, 70)
    assert (found.status["phase"], "ImagePullBackOff" in found.status["refused"]["message"]) == (
        "Running",
        True,
    )
    assert acts(found, actions.DeleteCommand) != []


def test_a_newer_spec_is_asked_instead_of_the_one_before() -> None:
    asked = Asked()
    newest = {"image": "example/job:3"}
    found = look(asked.status, later_s=5, spec=newest, generation=3, commands=(asked.command(),))
    assert found.status["intent"]["revision"] == revision(**newest).name
    assert acts(found, actions.DeleteCommand) != []


def test_a_change_that_is_taken_back_ends_the_check() -> None:
    asked = Asked()
    found = look(asked.status, later_s=5, spec={}, generation=3, commands=(asked.command(),))
    assert (found.status["phase"], "intent" in found.status) == ("Running", False)
    assert acts(found, actions.DeleteCommand) != []


def test_a_driver_that_dies_meanwhile_is_replaced_without_an_answer() -> None:
    asked = Asked()
    found = asked.look(asked.command(), drivers=())
    assert found.status["intent"]["action"] == "start"
    assert acts(found, actions.DeleteCommand) != []


DIED: dict[str, dict[str, Any]] = {
    "its pod is gone": {"drivers": ()},
    "it has ended": {"drivers": (pod(phase="Failed", ready=False, ended=scene.ended(137)),)},
    "it is taken away": {"drivers": (pod(deleting_at=NOW + timedelta(seconds=630)),)},
}


@pytest.mark.parametrize("fields", DIED.values(), ids=DIED)
@pytest.mark.parametrize("begun", [True, False], ids=["during the check", "when the check is due"])
def test_a_refused_version_does_not_follow_a_driver_that_dies(begun: bool, fields: dict[str, Any]) -> None:
    """Without a driver that lives nobody checks, and the version that had been refused was started."""
    asked = Asked()
    status = dict(asked.look(asked.command(**ended(**NO))).status)
    later_s = checking.REFUSED_S + 5
    if begun:
        status = dict(look(status, later_s=later_s, spec=asked.spec).status)
        assert status["intent"]["action"] == "check"
    found = look(status, later_s=later_s + 1, spec=asked.spec, **fields)
    assert (found.status["intent"]["action"], found.status["phase"]) == ("start", "Failing")
    assert (found.status["revision"], found.status["attempt"]) == (revision().name, 2)
    assert found.status["refused"]["revision"] == revision(**NEWER).name, "it is tried again later"
    assert found.check is None


NEEDLESS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing stored": (running_status(), NEWER),
    "switched off": (stored(), {**NEWER, "upgradeCheck": False}),
    "stateless": (stored(), {**NEWER, "upgradeMode": "stateless"}),
    "start empty": (stored(), {**NEWER, "startEmpty": True}),
    "rescale": (stored(), {"slots": 4}),
}


@pytest.mark.parametrize(("status", "spec"), NEEDLESS.values(), ids=NEEDLESS)
def test_where_no_state_can_be_lost_nobody_is_asked(status: dict[str, Any], spec: dict[str, Any]) -> None:
    assert look(status, spec=spec).status["phase"] == "Upgrading"


def test_a_failing_job_is_upgraded_at_once() -> None:
    assert look({**stored(), "phase": "Failing"}, spec=NEWER).status["phase"] == "Upgrading"


def test_state_that_the_change_names_is_what_is_checked() -> None:
    spec = {**NEWER, "restoreFrom": {"uri": "s3://bucket/sp-1"}, "upgradeMode": "savepoint"}
    asked = Asked(**spec)
    assert asked.action.arguments == ("--from=s3://bucket/sp-1",)
    assert Asked(upgradeMode="savepoint").action.arguments == ("--by-savepoint",)


# -- its pod -----------------------------------------------------------------------------------------------------------


def job_of(**spec: Any) -> dict[str, Any]:
    wanted = settings.resolve({**SPEC, **NEWER, **spec})
    context = parts.Context(job(), plan.Revision("orders-2", wanted), Config())
    action = actions.CreateCheck("orders-check-1", "orders-2", actions.Start(), ("--by-savepoint",), 600)
    return check.job(context, action)


def test_its_pod_is_the_new_drivers_without_what_belongs_to_an_attempt() -> None:
    body = job_of(serviceAccountName="mine", driver={"memory": "2Gi"})
    assert body["spec"]["backoffLimit"] == 0
    template = body["spec"]["template"]
    assert template["metadata"]["labels"]["sparkstate.io/role"] == "command"
    assert "sparkstate.io/attempt" not in template["metadata"]["labels"]
    spec = template["spec"]
    assert (spec["serviceAccountName"], spec["restartPolicy"]) == ("mine", "Never")
    (container,) = spec["containers"]
    assert container["image"] == "example/job:2"
    assert container["command"] == ["sparkstate"]
    assert container["args"] == ["check", "/etc/sparkstate/job/job.yaml", "--json", "--by-savepoint"]
    assert {"readinessProbe", "livenessProbe", "ports"}.isdisjoint(container)
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "512Mi"}
    assert "token" not in {one["name"] for one in (*spec["volumes"], *container["volumeMounts"])}
    (manifest,) = (one for one in spec["volumes"] if one["name"] == "job")
    (item,) = manifest["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['sparkstate.io/manifest']"
    assert (
        '"image"' not in template["metadata"]["annotations"]
        and "/app/job.py" in template["metadata"]["annotations"]["sparkstate.io/manifest"]
    )


def test_its_pod_may_run_beside_the_driver_and_ends_with_its_own_container() -> None:
    template = {
        "spec": {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
                "nodeAffinity": {},
            },
            "initContainers": [{"name": "fetch", "image": "example/fetch:1"}],
            "containers": [
                {"name": "driver", "volumeMounts": [{"name": "disk", "mountPath": "/fast"}]},
                {"name": "logs", "image": "example/logs:1"},
            ],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "fast"}}],
        }
    }
    spec = job_of(driverTemplate=template, localStorage={"paths": ["/fast/slots"]})["spec"]["template"][
        "spec"
    ]
    assert [one["name"] for one in spec["containers"]] == ["command"]
    assert [one["name"] for one in spec["initContainers"]] == ["fetch"]
    assert list(spec["affinity"]) == ["nodeAffinity"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes["disk"] == {"name": "disk", "emptyDir": {}}
    assert volumes["work"] == {"name": "work", "emptyDir": {}}


def test_its_pod_asks_for_no_more_than_its_limit_and_for_no_device() -> None:
    driver = {"name": "driver", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}}
    spec = job_of(driverTemplate={"spec": {"containers": [driver]}})["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert container["resources"]["requests"]["cpu"] == "100m"


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({"cpu": "50m"}, {"cpu": "50m"}),
        ({"cpu": 0.05}, {"cpu": "0.05"}),
        ({"cpu": "+2"}, {"cpu": "100m"}),
        ({"cpu": "half"}, {"cpu": "100m"}),
        ({"ephemeral-storage": "200Gi"}, {"ephemeral-storage": "100Mi"}),
        ({"ephemeral-storage": "5Mi"}, {"ephemeral-storage": "5Mi"}),
    ],
    ids=["little", "a number", "much", "unreadable", "a large disk", "a small disk"],
)
def test_its_pod_asks_for_little_and_for_no_more_than_a_limit(
    limits: dict[str, Any], requests: dict[str, str]
) -> None:
    """A limit without a request is taken for the request as well, and no node has room for a second driver's disk."""
    driver = {"name": "driver", "resources": {"limits": limits}}
    spec = job_of(driverTemplate={"spec": {"containers": [driver]}})["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    asked = {"cpu": "100m", "memory": "512Mi", **requests}
    assert container["resources"]["requests"] == asked


def test_the_check_begins_when_the_status_says_so() -> None:
    begun = look(stored())
    assert clock.parse(begun.status["intent"]["since"]) == NOW
    assert acts(begun, actions.CreateCheck) == [], "the intent is written before the Job is made"
