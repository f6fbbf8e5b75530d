"""An upgrade whose pod is refused is tried again, and a quota that the old pod fills does not refuse it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, ended, job, pod, revision, running_status

from sparkstate_operator import actions, clock, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import pod_usage, quota, settings
from sparkstate_operator.decide import decide, refusing

NEWER = {"image": "example/job:2"}
DRIVER = {"resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "500m"}}}
SIDE = {"resources": {"limits": {"memory": "512Mi"}}}
USAGE = pod_usage.read({"spec": {"containers": [DRIVER, SIDE]}})


def look(
    status: dict[str, Any], *, refused: str = "", later_s: float = 0, generation: int = 2, **fields: Any
) -> actions.Decision:
    spec = fields.pop("spec", NEWER)
    seen = observed.ObservedState(
        job(status, generation=generation, **spec),
        NOW + timedelta(seconds=later_s),
        drivers=fields.pop("drivers", (pod(usage=USAGE),)),
        refused=refused,
        **fields,
    )
    known = {one.name: one for one in (revision(), revision(**NEWER))}
    wanted = plan.of_spec("orders", settings.resolve(seen.job.spec))
    return decide(seen, known, wanted, "", Config())


def refused_once() -> dict[str, Any]:
    found = look(running_status(), refused="serviceaccount mine not found")
    return dict(found.status)


def test_a_refused_upgrade_is_tried_again_after_pauses_that_double() -> None:
    status = refused_once()
    pauses = []
    for _ in range(7):
        next_s = (clock.parse(status["refused"]["nextTime"]) - NOW).total_seconds()  # type: ignore[operator]
        pauses.append(next_s)
        early = look(status, later_s=next_s - 2)
        assert (early.check, early.status["phase"]) == (None, "Running")
        assert early.wait_s is not None
        assert early.wait_s <= 2
        due = look(status, later_s=next_s)
        assert due.check is not None
        assert due.check.revision == revision(**NEWER).name
        status = dict(look(status, refused="still not there", later_s=next_s).status)
        assert (status["revision"], status["phase"]) == (revision().name, "Running")
    steps = [round(after - before, -1) for before, after in zip([0.0, *pauses], pauses, strict=False)]
    assert steps == [30, 60, 120, 240, 480, 600, 600]


def test_an_upgrade_that_is_not_refused_any_more_is_made() -> None:
    status = refused_once()
    found = look(status, later_s=refusing.RETRY_S + 1)
    assert (found.status["intent"]["action"], found.status["phase"]) == ("upgrade", "Upgrading")
    assert found.status["intent"]["revision"] == revision(**NEWER).name


def test_a_refused_revision_is_not_tried_while_nothing_runs() -> None:
    found = look(refused_once(), later_s=3600, drivers=())
    assert found.check is None
    assert (found.status.get("intent") or {}).get("revision") == revision().name


CRASHES = pod(
    usage=USAGE,
    ready=False,
    waiting="CrashLoopBackOff",
    restarts=2,
    last_ended=observed.Termination(1, "Error", "", NOW),
)


INIT_FAILS = pod(
    usage=USAGE, ready=False, waiting="PodInitializing", trouble=("CrashLoopBackOff", "it fails")
)
UNPULLED = pod(usage=USAGE, ready=False, waiting="ImagePullBackOff")


@pytest.mark.parametrize("phase", ["Starting", "Failing"])
@pytest.mark.parametrize(
    "driver", [CRASHES, INIT_FAILS, UNPULLED], ids=["it", "an init container", "no image"]
)
def test_a_remedy_is_tried_again_while_the_old_version_crashes_again_and_again(
    phase: str, driver: observed.Pod
) -> None:
    """The API server had not answered when the remedy was applied, and the version that crashed was kept for ever."""
    found = look(running_status(phase=phase), refused="no answer", drivers=(driver,))
    assert found.status["refused"]["dryRun"] is True
    status = {**found.status, "phase": phase}
    early = look(status, later_s=refusing.RETRY_S - 5, drivers=(driver,))
    assert early.check is None
    again = look(status, later_s=refusing.RETRY_S + 1, drivers=(driver,), refused="still no answer")
    assert (again.status["refused"]["tries"], again.status["revision"]) == (2, revision().name)
    due = look(dict(again.status), later_s=100, drivers=(driver,))
    assert due.check is not None
    assert due.status["intent"]["revision"] == revision(**NEWER).name


PREPARES = pod(usage=USAGE, ready=False, restarts=2)


@pytest.mark.parametrize(
    ("phase", "driver", "report"),
    [
        pytest.param("Failing", PREPARES, "RECOVERING", id="it recovers"),
        pytest.param("Starting", PREPARES, "", id="it starts"),
        pytest.param(
            "Starting", dataclasses.replace(PREPARES, waiting="ContainerCreating"), "", id="it is made"
        ),
    ],
)
def test_a_refused_dry_run_is_repeated_once_the_old_version_runs_again(
    phase: str, driver: observed.Pod, report: str
) -> None:
    """The retry fell due meanwhile, and the new version replaced a healthy job without the check of its state."""
    stored = {"id": 4, "uri": "s3://b/chk-4"}
    status = {**look(running_status(lastCheckpoint=stored), refused="a full quota").status, "phase": phase}
    heard = {"report": observed.Report({"phase": report})} if report else {}
    waits = look(status, later_s=refusing.RETRY_S + 1, drivers=(driver,), **heard)
    assert (waits.check, waits.status["phase"], "intent" in waits.status) == (None, phase, False)
    runs = look({**waits.status, "phase": "Running"}, later_s=refusing.RETRY_S + 1)
    assert runs.status["intent"]["action"] == "check"


@pytest.mark.parametrize("phase", ["Failed", "RestoreBlocked"])
def test_a_remedy_starts_where_the_old_version_has_failed_for_good(phase: str) -> None:
    over = pod(phase="Failed", ready=False, ended=ended(1, "UserCodeError"))
    status = {**refused_once(), "phase": phase}
    assert "intent" not in look(status, later_s=5, drivers=(over,)).status
    found = look(status, later_s=refusing.RETRY_S + 1, drivers=(over,))
    assert (found.status["attempt"], found.status["intent"]["action"]) == (2, "start")
    assert found.status["intent"]["revision"] == revision(**NEWER).name


def test_a_version_that_the_check_has_refused_stays_one_when_a_dry_run_refuses_it_too() -> None:
    """It would start unchecked as soon as the old version crashes."""
    status = refused_once()
    del status["refused"]["dryRun"]
    again = look(status, later_s=refusing.RETRY_S + 1, refused="a full quota")
    assert (again.status["refused"]["tries"], "dryRun" in again.status["refused"]) == (2, False)
    failing = look({**again.status, "phase": "Failing"}, later_s=3600, drivers=(CRASHES,))
    assert failing.check is None
    assert failing.status["revision"] == revision().name


def test_a_check_goes_on_while_the_driver_recovers_if_only_a_dry_run_has_refused_the_version() -> None:
    stored = {"id": 4, "uri": "s3://b/chk-4"}
    status = dict(look(running_status(lastCheckpoint=stored), refused="no").status)
    checked = look(status, later_s=refusing.RETRY_S + 1)
    assert checked.status["intent"]["action"] == "check"
    report = observed.Report({"phase": "RECOVERING"})
    recovers = look({**checked.status, "phase": "Failing"}, later_s=40, report=report)
    assert recovers.status["intent"]["action"] == "check"


def test_a_spec_that_goes_back_forgets_the_refusal() -> None:
    found = look(refused_once(), generation=3, later_s=3600, spec={})
    assert "refused" not in found.status
    assert found.check is None


def test_another_spec_begins_with_a_short_pause() -> None:
    status = refused_once()
    status["refused"]["tries"] = 6
    found = look(status, generation=3, spec={"image": "example/job:3"}, refused="no")
    assert found.status["refused"]["tries"] == 1


# -- quotas ------------------------------------------------------------------------------------------------------------


def refusal(requested: str, used: str, limited: str) -> str:
    return (
        f'create /api/v1/namespaces/shop/pods: pods "orders-driver-2" is forbidden: exceeded quota: ours, '
        f"requested: {requested}, used: {used}, limited: {limited} (403)"
    )


@pytest.mark.parametrize(
    ("requested", "used", "limited", "fits"),
    [
        ("pods=1", "pods=1", "pods=1", True),
        ("pods=1", "pods=3", "pods=2", False),
        ("limits.memory=2560Mi", "limits.memory=2560Mi", "limits.memory=2560Mi", True),
        ("limits.memory=3Gi", "limits.memory=2560Mi", "limits.memory=2560Mi", False),
        ("limits.memory=3Gi,pods=1", "limits.memory=3Gi,pods=1", "limits.memory=4Gi,pods=1", True),
        ("requests.cpu=1", "requests.cpu=1500m", "requests.cpu=2", True),
        ("requests.cpu=1", "requests.cpu=1501m", "requests.cpu=2", False),
        ("services=1", "services=1", "services=1", False),
    ],
)
def test_what_the_old_pod_holds_is_free_for_the_new_one(
    requested: str, used: str, limited: str, fits: bool
) -> None:
    found = look(running_status(), refused=refusal(requested, used, limited))
    assert (found.status["phase"] == "Upgrading") is fits
    assert ("refused" in found.status) is not fits
    if fits:
        (told,) = (note.message for note in found.notes if note.reason == "Upgrading")
        assert "before the old one has ended" in told


def test_a_pod_that_has_ended_holds_nothing() -> None:
    over = pod(2, phase="Failed", usage=USAGE)
    drivers = (pod(usage=USAGE), dataclasses.replace(over, attempt=0, name="orders-driver-0"))
    found = look(running_status(), refused=refusal("pods=1", "pods=2", "pods=1"), drivers=drivers)
    assert "refused" in found.status


def test_a_pod_that_should_have_ended_long_ago_holds_nothing() -> None:
    """Quotas do not count it any more, so its end makes no room."""
    for late_s, phase in ((-1, "Upgrading"), (31, "Running")):
        driver = pod(usage=USAGE, deleting_at=NOW - timedelta(seconds=late_s), grace_s=30)
        found = look(running_status(), refused=refusal("pods=1", "pods=1", "pods=1"), drivers=(driver,))
        assert found.status["phase"] == phase


def test_a_large_init_container_of_the_old_pod_is_free_for_that_of_the_new_one() -> None:
    """Only containers counted, and the upgrade of such a job was refused for ever."""
    fetch = {"resources": {"limits": {"memory": "8Gi"}}}
    large = pod_usage.read({"spec": {"containers": [DRIVER], "initContainers": [fetch]}})
    full = refusal("limits.memory=8Gi", "limits.memory=8Gi", "limits.memory=8Gi")
    found = look(running_status(), refused=full, drivers=(pod(usage=large),))
    assert found.status["phase"] == "Upgrading"


def test_a_quota_that_does_not_count_the_old_pod_has_no_room_when_it_is_gone() -> None:
    """The old version was stopped, and the new one could not be made."""
    high = (quota.Scope("PriorityClass", "In", ("high",)),)
    full = refusal("pods=1", "pods=1", "pods=1")
    refused = look(running_status(), refused=full, quota_scopes=high)
    assert (refused.status["phase"], refused.actions) == ("Running", ())
    assert "exceeded quota: ours" in refused.status["refused"]["message"]
    counted = pod(usage=dataclasses.replace(USAGE, priority_class="high"))
    found = look(running_status(), refused=full, quota_scopes=high, drivers=(counted,))
    assert found.status["phase"] == "Upgrading"
