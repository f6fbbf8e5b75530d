"""What the API server refuses to one job: a mark, a binding, a role that is not there. Against objects in memory."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

import pytest
from support.scene.decisions import NOW, acts, ended, job, pod, revision, running_status

from sparkstate_operator import (
    actions,
    clock,
    errors,
    hooks,
    labels,
    leaving,
    memories,
    observed,
    reconcile,
    release,
)
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import Config, DriverRole
from sparkstate_operator.decide import decide
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Others
from sparkstate_operator.events import Recorder
from sparkstate_operator.memory import Memory
from sparkstate_operator.metrics import Metrics

CLUSTER = revision(deployment="cluster")
LEGACY = {"metadata": {"name": "orders-spark", "labels": {labels.JOB_UID: "uid-1"}}}
REFUSED = errors.Refused(403, 'admission webhook "a.b" denied the request: no labels of that kind')


class Kube:
    """Writes are noted; ``fails`` says what is refused, by verb and plural."""

    def __init__(self, roles: tuple[str, ...] = (), **fails: errors.ApiError) -> None:
        self._roles, self._fails = roles, fails
        self.wrote: list[str] = []
        self.events: list[str] = []
        self.merged: list[dict[str, Any]] = []

    async def get(self, kind: k.Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        if error := self._fails.get(f"get_{kind.plural}"):
            raise error
        wanted = kind.kind if namespace is None else f"{namespace}/{kind.kind}"
        return {"metadata": {"name": name}} if f"{wanted}/{name}" in self._roles else None

    def _write(self, verb: str, kind: k.Kind, name: str) -> dict[str, Any]:
        if error := self._fails.get(f"{verb}_{kind.plural}"):
            raise error
        self.wrote.append(f"{verb} {kind.plural}/{name}")
        return {"metadata": {"resourceVersion": "8"}}

    async def create(self, kind: k.Kind, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind is k.EVENTS:
            self.events.append(f"{body['reason']}: {body['message']}")
        return self._write("create", kind, body["metadata"]["name"])

    async def apply(self, kind: k.Kind, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._write("apply", kind, body["metadata"]["name"])

    async def merge(self, kind: k.Kind, _namespace: str, name: str, body: Any) -> dict[str, Any]:
        self.merged.append(body)
        if "annotations" in body["metadata"] and (error := self._fails.get("annotate")):
            raise error
        return self._write("merge", kind, name)

    async def replace(self, kind: k.Kind, _namespace: str, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        return self._write("replace", kind, body["metadata"]["name"])

    async def delete(self, kind: k.Kind, _namespace: str, name: str, **_: Any) -> bool:
        self._write("delete", kind, name)
        return True


def reconciler(kube: Kube, config: Config) -> reconcile.Reconciler:
    """One that looks at nothing."""
    applier = Applier(cast(k.Kube, kube), None, config, b"k" * 32, hooks.NoHooks())  # type: ignore[arg-type]
    clock_ = clock.SystemClock()
    no: Any = None
    return reconcile.Reconciler(no, no, applier, Recorder(clock_, "me"), config, clock_, Metrics())


def carry_out(kube: Kube, seen: observed.ObservedState, decision: actions.Decision, config: Config) -> None:
    """All that was decided."""
    one = reconciler(kube, config)
    asyncio.run(one._carry_out_job(seen, decision, {CLUSTER.name: CLUSTER}, Memory()))


def of_an_older_operator() -> observed.ObservedState:
    """A job that runs in executors, with the Role and RoleBinding that operators of before made."""
    status = running_status(revision=CLUSTER.name)
    older = tuple(
        observed.Child(kind, "orders-spark", f"uid-{kind}", "1", None, LEGACY)
        for kind in ("RoleBinding", "Role")
    )
    running = pod(revision=CLUSTER.name)
    return observed.ObservedState(job(status, deployment="cluster"), NOW, drivers=(running,), children=older)


def decided(seen: observed.ObservedState, config: Config) -> actions.Decision:
    found = decide(seen, {CLUSTER.name: CLUSTER}, CLUSTER, "", config)
    wanted = (actions.EnsureChildren, actions.DeleteChild)
    return dataclasses.replace(found, actions=tuple(one for one in found.actions if isinstance(one, wanted)))


@pytest.mark.parametrize(
    ("role", "there"),
    [
        (DriverRole(), "ClusterRole/sparkstate-driver"),
        (DriverRole("Role", "drivers"), "shop/Role/drivers"),
    ],
    ids=["ClusterRole", "Role"],
)
def test_what_an_older_operator_granted_goes_once_the_role_of_drivers_is_seen(
    role: DriverRole, there: str
) -> None:
    seen, config = of_an_older_operator(), Config(driver_role=role)
    gone = ["delete rolebindings/orders-spark", "delete roles/orders-spark"]
    kube = Kube((there,))
    carry_out(kube, seen, decided(seen, config), config)
    assert [one for one in kube.wrote if one.startswith("delete")] == gone
    bound = next(each for each in kube.wrote if each.startswith("apply rolebindings/"))
    assert bound != "apply rolebindings/orders-spark"
    assert kube.wrote.index(bound) < kube.wrote.index(gone[0]), (
        "a driver that runs is never without its rights"
    )
    no = errors.Forbidden(403, "no")
    for lacking in (Kube(), Kube((there,), get_roles=no, get_clusterroles=no)):
        with pytest.raises((errors.DriverRoleMissing, errors.Forbidden)):
            carry_out(lacking, seen, decided(seen, config), config)
        assert [one for one in lacking.wrote if one.startswith("delete")] == []
        assert len(lacking.events) == 1
    assert f"{role.kind} {role.name} (--driver-role) does not exist" in str(errors_of(seen, config))


def errors_of(seen: observed.ObservedState, config: Config) -> errors.DriverRoleMissing:
    with pytest.raises(errors.DriverRoleMissing) as caught:
        carry_out(Kube(), seen, decided(seen, config), config)
    return caught.value


def test_a_deleted_job_s_rights_go_whether_or_not_the_role_is_there() -> None:
    seen = of_an_older_operator()
    over = dataclasses.replace(seen, drivers=(), job=job(dict(seen.job.status), deleting=True))
    deletions = acts(decide(over, {CLUSTER.name: CLUSTER}, None, "", Config()), actions.DeleteChild)
    assert not any(one.replaced for one in deletions)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the role of drivers is missing",
    when="the operator binds a job with executors to it",
    expected="an Event names the role, and what a running driver has stays",
)
def test_a_role_that_cannot_be_bound_because_it_is_not_there_is_told() -> None:
    seen = of_an_older_operator()
    kube = Kube(apply_rolebindings=errors.NotFound(404, 'clusterroles "sparkstate-driver" not found'))
    with pytest.raises(errors.DriverRoleMissing):
        carry_out(kube, seen, decided(seen, Config()), Config())
    assert [one.split(" (")[0] for one in kube.events] == ["DriverRoleMissing: ClusterRole sparkstate-driver"]


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a policy refuses the mark of its operator on a job",
    when="the job runs",
    expected="it is looked after all the same, and an Event names the mark",
)
@pytest.mark.parametrize("error", [REFUSED, errors.Forbidden(403, "no"), errors.Invalid(422, "no")], ids=repr)
def test_a_job_whose_mark_cannot_be_written_is_looked_after_and_told(error: errors.ApiError) -> None:
    seen = observed.ObservedState(job(running_status()), NOW)
    decision = actions.Decision({"phase": "Starting"}, before=(actions.AddFinalizer(),))
    kube = Kube(merge_statefulsparkjobs=error)
    carry_out(kube, seen, decision, Config(mark="ops/ours"))
    assert "replace statefulsparkjobs/orders" in kube.wrote
    (told,) = kube.events
    assert told.startswith(f"{error.reason}: the mark of its operator")


def test_a_job_that_cannot_be_held_is_not_begun_and_told() -> None:
    seen = observed.ObservedState(job(finalizers=()), NOW)
    decision = actions.Decision({"phase": "Starting"}, before=(actions.AddFinalizer(),))
    kube = Kube(merge_statefulsparkjobs=REFUSED)
    with pytest.raises(errors.Refused):
        carry_out(kube, seen, decision, Config(mark="ops/ours"))
    assert [one for one in kube.wrote if "events" not in one] == []
    assert len(kube.events) == 1


def test_a_name_is_pinned_in_the_same_write_as_the_mark() -> None:
    seen = observed.ObservedState(job(running_status()), NOW)
    pin = {labels.CLUSTER_KEPT: "uid-1//green"}
    decision = actions.Decision(seen.job.status, before=(actions.AddFinalizer(notes=pin),))
    kube = Kube()
    carry_out(kube, seen, decision, Config(mark="ops/ours"))
    (merged,) = kube.merged
    assert merged["metadata"]["annotations"] == {labels.MANAGER: "ops/ours", **pin}
    assert merged["metadata"]["resourceVersion"] == seen.job.resource_version


def test_somebody_else_who_writes_the_job_first_ends_the_step() -> None:
    seen = observed.ObservedState(job(running_status()), NOW)
    decision = actions.Decision({"phase": "Starting"}, before=(actions.AddFinalizer(),))
    kube = Kube(merge_statefulsparkjobs=errors.Conflict(409, "changed"))
    with pytest.raises(errors.Conflict):
        carry_out(kube, seen, decision, Config(mark="ops/ours"))
    assert kube.wrote == []


def test_a_job_that_was_given_to_another_class_is_let_go_with_its_mark_and_that_is_told() -> None:
    kube, config = Kube(), Config(mark="ops/ours")
    about = dataclasses.replace(job(running_status()), annotations={labels.MANAGER: "ops/ours"})
    one = reconciler(kube, config)
    key = memories.Key("job", "shop", "orders")
    assert asyncio.run(one._custody.leave(key, k.JOBS, Others(about, None), "shop")) is None
    assert kube.wrote[0] == "merge statefulsparkjobs/orders"
    meta = kube.merged[0]["metadata"]
    assert (meta["finalizers"], meta["annotations"]) == ([], {labels.MANAGER: None})
    assert meta["resourceVersion"] == about.resource_version
    assert kube.events[0].startswith("LeftToClass: the operator ops/ours lets it go")
    assert "removes them some time later, without a savepoint" in kube.events[0]
    found = asyncio.run(one._custody.leave(key, k.SNAPSHOTS, Others(about, None, waits=True), "shop"))
    assert found is not None
    assert found.delay_s == leaving.OTHERS_S


MARKED = dataclasses.replace(job(running_status()), annotations={labels.MANAGER: "ops/ours"})


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a policy refuses all changes of annotations",
    when="a job is deleted, or let go",
    expected="the finalizer goes all the same",
)
@pytest.mark.parametrize("error", [REFUSED, errors.Forbidden(403, "no"), errors.Invalid(422, "no")], ids=repr)
def test_the_mark_holds_up_neither_a_deletion_nor_a_job_that_is_given_away(error: errors.ApiError) -> None:
    config = Config(mark="ops/ours")
    gone = dataclasses.replace(MARKED, deleting_at=NOW)
    deletes = Kube(annotate=error)
    decision = actions.Decision(gone.status, actions=(actions.RemoveFinalizer(),))
    carry_out(deletes, observed.ObservedState(gone, NOW), decision, config)
    assert [one["metadata"]["finalizers"] for one in deletes.merged] == [[]], "asked once, for that alone"

    lets_go = Kube(annotate=error)
    key = memories.Key("job", "shop", "orders")
    asyncio.run(reconciler(lets_go, config)._custody.leave(key, k.JOBS, Others(MARKED, None), "shop"))
    assert "merge statefulsparkjobs/orders" in lets_go.wrote
    first, second = (one["metadata"] for one in lets_go.merged)
    assert "annotations" not in second
    assert first["resourceVersion"] == second["resourceVersion"] == MARKED.resource_version

    uninstalls = Kube(annotate=error)
    meta = {"name": "orders", "namespace": "shop", "resourceVersion": "7", "finalizers": [labels.FINALIZER]}
    marked: dict[str, Any] = {**meta, "annotations": {labels.MANAGER: "ops/ours"}}
    asyncio.run(release._take_finalizer(cast(k.Kube, uninstalls), k.JOBS, marked))
    assert uninstalls.wrote == ["merge statefulsparkjobs/orders"]
    asyncio.run(
        release._take_finalizer(
            cast(k.Kube, uninstalls), k.JOBS, {**marked, "deletionTimestamp": "2026-01-01T12:00:00Z"}
        )
    )
    assert len(uninstalls.merged) == 3, "one that is being deleted is asked for once"


def test_a_finalizer_that_cannot_be_removed_is_told() -> None:
    kube = Kube(merge_statefulsparkjobs=REFUSED)
    gone = dataclasses.replace(MARKED, deleting_at=NOW)
    decision = actions.Decision(gone.status, actions=(actions.RemoveFinalizer(),))
    with pytest.raises(errors.Refused):
        carry_out(kube, observed.ObservedState(gone, NOW), decision, Config(mark="ops/ours"))
    assert len(kube.events) == 1


def test_a_secret_without_a_config_map_is_deleted_by_its_name_alone() -> None:
    gone = dataclasses.replace(MARKED, deleting_at=NOW)
    decision = actions.Decision(gone.status, actions=(actions.DeleteSecret(3),))
    kube = Kube()
    carry_out(kube, observed.ObservedState(gone, NOW), decision, Config())
    assert kube.wrote == ["delete secrets/sparkstate-uid-1-3"]


NEWER = {"image": "example/job:2"}
FULL = errors.Forbidden(403, "controllerrevisions is forbidden: exceeded quota: few")


def changed(**fields: Any) -> observed.ObservedState:
    """A newer spec, while the driver of the older one has failed."""
    over = pod(phase="Failed", ready=False, ended=ended(1, "SlotLost"))
    newer = job(running_status(), generation=2, **NEWER)
    return observed.ObservedState(newer, NOW, drivers=(over,), **fields)


def decided_on(seen: observed.ObservedState) -> actions.Decision:
    return decide(seen, {revision().name: revision()}, revision(**NEWER), "", Config())


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the API server refuses the ControllerRevision of a changed spec (a quota, a policy, another's object)",
    when="the driver of the job fails",
    expected="its successor is made of the revision that runs, and the spec is tried again",
)
def test_a_spec_that_cannot_be_kept_does_not_end_the_care_for_the_job() -> None:
    memory, kube = Memory(), Kube(create_controllerrevisions=FULL)
    known = {one.name: one for one in (revision(), revision(**NEWER))}
    seen = changed()
    with pytest.raises(errors.Forbidden):
        asyncio.run(reconciler(kube, Config())._carry_out_job(seen, decided_on(seen), known, memory))
    assert kube.events == [f"Forbidden: {FULL}"]
    follows = decided_on(changed(unkept=memory.attempts.take_unkept()))
    assert (follows.status["attempt"], follows.status["revision"]) == (2, revision().name)
    assert follows.status["observedGeneration"] == 1
    (degraded,) = (one for one in follows.status["conditions"] if one["type"] == "Degraded")
    assert degraded["reason"] == "UpgradeRefused"
    assert str(FULL) in degraded["message"]
    assert follows.before == ()
    assert memory.attempts.take_unkept() == "", "the look after that one tries the spec again"


def test_a_refusal_of_anything_else_does_not_keep_a_new_spec_from_being_accepted() -> None:
    memory, seen = Memory(), changed()
    with pytest.raises(errors.Forbidden), memory.attempts.noting_refusals(of_spec=False):
        raise FULL
    assert memory.attempts.take_unkept() == ""
    judged = dataclasses.replace(seen.job, status={**seen.job.status, "observedGeneration": 2})
    accepted = decided_on(dataclasses.replace(seen, job=judged, unkept=str(FULL)))
    assert "UpgradeRefused" not in str(accepted.status)


def test_a_first_spec_that_cannot_be_kept_says_so() -> None:
    new = observed.ObservedState(job(generation=1), NOW, unkept=str(FULL), unwritten=True)
    found = decide(new, {}, revision(), "", Config())
    assert (found.status["phase"], found.before, found.actions) == ("Pending", (), ())
    assert str(FULL) in found.status["message"]


def acting(*acts_: actions.Action) -> actions.Decision:
    return actions.Decision(status=running_status(), actions=acts_)


SNAPSHOT = observed.Snapshot("old", "s-1", "1", 1, NOW, {}, {}, {}, {}, ())
LETS_GO = actions.DeleteSnapshot(SNAPSHOT, "by count")
ASKS = actions.CreateSnapshot({"metadata": {"name": "new", "labels": {}}})
TIDIES = actions.DeleteRevision(observed.Child("ControllerRevision", "orders-1", "r-1", "1", None, {}))


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a quota has no room for another StateSnapshot, or a policy forbids to delete one",
    when="a periodic savepoint is due",
    expected="the refusal is told, and the other acts of the look are done all the same",
)
@pytest.mark.parametrize(
    ("refused", "done"),
    [
        ("create_statesnapshots", ["delete statesnapshots/old", "delete controllerrevisions/orders-1"]),
        ("delete_statesnapshots", ["create statesnapshots/new", "delete controllerrevisions/orders-1"]),
    ],
)
def test_a_refused_snapshot_hinders_no_other_act(refused: str, done: list[str]) -> None:
    kube = Kube(**{refused: FULL})
    seen = observed.ObservedState(job(running_status()), NOW)
    with pytest.raises(errors.Forbidden):
        carry_out(kube, seen, acting(ASKS, LETS_GO, TIDIES), Config())
    assert [one for one in kube.wrote if "events" not in one] == done
    assert kube.events == [f"Forbidden: {FULL}"]


def test_a_job_does_not_go_while_a_snapshot_of_it_may_not() -> None:
    kube = Kube(delete_statesnapshots=FULL)
    seen = observed.ObservedState(job(running_status(), deleting=True), NOW)
    with pytest.raises(errors.Forbidden):
        carry_out(kube, seen, acting(LETS_GO, TIDIES, actions.RemoveFinalizer()), Config())
    assert [one for one in kube.wrote if "events" not in one] == []
