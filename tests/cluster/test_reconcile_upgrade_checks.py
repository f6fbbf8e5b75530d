"""An upgrade on a real API server: the new version is asked about the state before the old one ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.cluster import webhook
from support.cluster.quotas import limit

from sparkstate_operator import clock
from sparkstate_operator.decide import checking
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

URL = "s3://bucket/state/00aa11bb22cc33dd/chk-3"
FITS = {"ok": True, "compatible": True, "url": URL, "message": ""}
REFUSED = {
    "ok": True,
    "compatible": False,
    "url": URL,
    "message": "state 'n' of operator 'count': its value type was LONG when it was stored and is now STRING; "
    "declare it as it was, or give the new state another name",
}


@pytest.fixture
def stored(operated: OperatedNamespace, running_operator: None) -> Iterator[OperatedNamespace]:
    """A job that runs, and has a checkpoint."""
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(3)
        operated.running()
        operated.cluster.until(lambda: operated.status().get("lastCheckpoint"), "the checkpoint is told")
        yield operated


def check_of(operated: OperatedNamespace, image: str) -> dict[str, Any]:
    """The Job that asks this image, once there is one."""

    def found() -> dict[str, Any] | None:
        for one in operated.cluster.items("jobs", operated.namespace):
            (container,) = one["spec"]["template"]["spec"]["containers"]
            if container["image"] == image:
                return dict(one)
        return None

    return operated.cluster.until(found, f"{image} is asked", 60)  # type: ignore[no-any-return]


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a new version declares a stored state with another type",
    when="a job is upgraded",
    expected="the old version runs on, and the condition names state, field and both types; one that fits replaces it",
)
def test_a_version_that_does_not_take_the_state_up_never_costs_the_one_that_runs(
    stored: OperatedNamespace,
) -> None:
    first = stored.until_pod(1)["metadata"]
    stored.apply(image="example/job:2")
    asked = check_of(stored, "example/job:2")
    template = asked["spec"]["template"]
    assert template["spec"]["containers"][0]["args"][0] == "check"
    assert '"/app/job.py"' in template["metadata"]["annotations"]["sparkstate.io/manifest"]
    assert stored.status()["phase"] == "Running"
    stored.finish_command(asked["metadata"]["name"], REFUSED, code=3)
    stored.cluster.until(lambda: "refused" in stored.status(), "the upgrade is refused", 60)
    degraded = stored.conditions()["Degraded"]
    assert (degraded["status"], degraded["reason"]) == ("True", "UpgradeRefused")
    for word in ("'n'", "'count'", "value type", "LONG", "STRING", URL):
        assert word in degraded["message"]
    assert "UpgradeRefused" in stored.reasons()
    status = stored.status()
    assert (status["phase"], status["attempt"]) == ("Running", 1)
    now = stored.until_pod(1)["metadata"]
    assert (now["uid"], "deletionTimestamp" in now) == (first["uid"], False)
    stored.cluster.until(
        lambda: stored.cluster.items("jobs", stored.namespace) == [], "the check has been cleared away"
    )

    stored.apply(image="example/job:3")
    stored.finish_command(check_of(stored, "example/job:3")["metadata"]["name"], FITS)
    stored.until_deleting("orders-driver-1")
    stored.kubelet.finish_deletion("orders-driver-1")
    assert stored.until_pod(2)["spec"]["containers"][0]["image"] == "example/job:3"
    assert "refused" not in stored.status()


def test_an_image_from_before_the_check_is_upgraded_to_without_it(stored: OperatedNamespace) -> None:
    stored.apply(image="example/job:2")
    name = check_of(stored, "example/job:2")["metadata"]["name"]
    stored.finish_command(name, {"message": "Error: No such command 'check'.", "ok": False}, code=2)
    stored.until_deleting("orders-driver-1")
    assert "StateNotChecked" in stored.reasons()


def test_a_job_that_does_not_want_the_check_is_upgraded_at_once(stored: OperatedNamespace) -> None:
    stored.apply(image="example/job:2", upgradeCheck=False)
    stored.until_deleting("orders-driver-1")
    assert stored.cluster.items("jobs", stored.namespace) == []


@pytest.fixture
def unasked(stored: OperatedNamespace) -> OperatedNamespace:
    """A job whose new version cannot be asked, because a quota has no room for Jobs."""
    limit(stored.cluster, stored.namespace, "none", {"count/jobs.batch": "0"})
    stored.apply(image="example/job:2")
    stored.cluster.until(lambda: "Forbidden" in stored.reasons(), "the Job is refused", 60)
    return stored


def begin_earlier(operated: OperatedNamespace) -> None:
    """The check that is under way began more than two minutes ago."""
    since = clock.text(clock.SystemClock().now() - timedelta(seconds=checking.ROOM_S + 5))
    patch = json.dumps({"status": {"intent": {"since": since}}})
    where = ("-n", operated.namespace, "--subresource=status", "--type=merge", "-p", patch)
    operated.cluster.kubectl("patch", "ssj", operated.name, *where)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a ResourceQuota has no room for the Job that asks a new version about the state",
    when="a job is upgraded",
    expected="after two minutes the upgrade goes on without the check, and an Event names the quota and the way out",
)
def test_a_quota_without_jobs_keeps_nobody_from_upgrading(unasked: OperatedNamespace) -> None:
    assert (unasked.status()["phase"], unasked.status()["intent"]["action"]) == ("Running", "check")
    begin_earlier(unasked)
    unasked.until_deleting("orders-driver-1")
    unasked.kubelet.finish_deletion("orders-driver-1")
    assert unasked.until_pod(2)["spec"]["containers"][0]["image"] == "example/job:2"
    (event,) = (
        one
        for one in unasked.cluster.items("events", unasked.namespace)
        if one["reason"] == "StateNotChecked"
    )
    for told in ("exceeded quota: none", "count/jobs.batch=1", "spec.upgradeCheck: false"):
        assert told in event["message"]
    assert unasked.cluster.items("jobs", unasked.namespace) == []


def test_a_quota_that_gets_room_for_a_job_in_time_has_the_new_version_asked(
    unasked: OperatedNamespace,
) -> None:
    unasked.cluster.kubectl("delete", "resourcequota", "none", "-n", unasked.namespace)
    unasked.finish_command(check_of(unasked, "example/job:2")["metadata"]["name"], FITS)
    unasked.until_deleting("orders-driver-1")
    assert "StateNotChecked" not in unasked.reasons()


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a validating webhook answers 500 to each new one of the {objects}",
    when="a job is upgraded",
    expected="the old version runs on, and a condition names webhook and remedy; the upgrade is made once it answers",
)
@pytest.mark.own_cluster
@pytest.mark.parametrize("objects", ["pods", "jobs"])
def test_a_webhook_that_fails_holds_up_the_upgrade_and_the_condition_says_so(
    stored: OperatedNamespace, objects: str
) -> None:
    judged = {"pods": webhook.PODS, "jobs": webhook.JOBS}[objects]
    with webhook.judging(stored.cluster, stored.namespace, objects=judged) as judge:
        judge.mood = "fails"
        stored.apply(image="example/job:2")
        if objects == "jobs":
            stored.cluster.until(lambda: "Refused" in stored.reasons(), "an Event tells it", 60)
            begin_earlier(stored)
        stored.cluster.until(lambda: "refused" in stored.status(), "the upgrade is put off", 90)
        degraded = stored.conditions()["Degraded"]
        assert (degraded["status"], degraded["reason"]) == ("True", "UpgradeRefused")
        assert f'failed calling webhook "{webhook.NAME}"' in degraded["message"]
        assert "mend that webhook" in degraded["message"]
        assert "deletionTimestamp" not in stored.until_pod(1)["metadata"]
        assert (stored.status()["phase"], stored.status()["attempt"]) == ("Running", 1)
        judge.mood = "passes"
        stored.finish_command(check_of(stored, "example/job:2")["metadata"]["name"], FITS)
        stored.until_deleting("orders-driver-1")
