"""Two operators over one namespace: of one class by mistake, and of two classes on purpose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sparkstate_operator import labels
from sparkstate_tools.operating import operator_account, operator_process
from sparkstate_tools.operating.operated_namespace import OperatedNamespace
from sparkstate_tools.operating.operator_process import Operator

pytestmark = pytest.mark.own_cluster


@contextmanager
def second(operated: OperatedNamespace, **options: str) -> Iterator[Operator]:
    """Another operator over the namespace, as another release installs it; its ServiceAccount is its own."""
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    told = {"lease-name": f"{operated.namespace}-second", "driver-port": str(operated.port), **options}
    words = [word for name, value in told.items() for word in (f"--{name}", value)]
    started = operator_process.start(
        kubeconfig, operated.folder, [operated.namespace], options=words, name="second"
    )
    try:
        yield started
        assert started.errors() == []
    finally:
        started.stop()


def marks(body: dict[str, Any]) -> str:
    return str((body["metadata"].get("annotations") or {}).get(labels.MANAGER, ""))


def told(operated: OperatedNamespace, name: str) -> bool:
    """Whether an Event says that the object of that name is another operator's."""
    return any(
        event["reason"] == "ManagedByAnother" and event["involvedObject"]["name"] == name
        for event in operated.cluster.items("events", operated.namespace)
    )


def touched(operated: OperatedNamespace, mark: int) -> list[tuple[str, str, str]]:
    """What the second one has written since, beside its Lease and Events."""
    user = operator_account.user(operated.namespace)
    return [
        (one.verb, one.resource, one.name)
        for one in operated.cluster.audit.writes(mark, user)
        if one.resource not in ("leases", "events")
    ]


def test_a_second_operator_of_the_same_class_leaves_jobs_alone_and_says_so(
    operated: OperatedNamespace,
) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    first = operated.start()
    operated.apply()
    operated.running()
    assert marks(operated.job()) == f"default/{namespace}"
    mark = cluster.audit.mark()
    with second(operated) as other:
        cluster.until(lambda: told(operated, "orders"), "it says whose the job is", 60)
        said = [line["message"] for line in other.lines() if "ManagedByAnother" in line["message"]]
        assert said
        assert f"the operator default/{namespace} looks after it" in said[0]
        operated.snapshot("one")
        cluster.until(lambda: told(operated, "one"), "it says the same of a snapshot", 60)
        operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
        operated.running(2)
        assert touched(operated, mark) == []
        assert first.errors() == []

        # An operator that is gone for good: a person says so, and the other one goes on with what runs.
        first.stop()
        cluster.kubectl("annotate", "ssj", "orders", "-n", namespace, f"{labels.MANAGER}-")
        cluster.until(
            lambda: marks(operated.job()) == f"default/{namespace}-second", "the second one takes it", 40
        )
        operated.kubelet.end("orders-driver-2", 1, {"reason": "SlotLost", "message": "gone"})
        operated.running(3)


def test_operators_of_two_classes_share_a_namespace_and_a_job_changes_hands_by_its_label(
    operated: OperatedNamespace,
) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    operated.start()
    operated.apply()
    operated.running()
    blue = operated.document()
    blue["metadata"] = {**blue["metadata"], "name": "blue", "labels": {labels.OPERATOR_CLASS: "blue"}}
    with second(operated, **{"operator-class": "blue"}) as other:
        cluster.apply(blue)
        operated.until_pod(1, "blue")
        assert marks(operated.job("blue")) == f"default/{namespace}-second@blue"
        # A snapshot goes with its job; it is nobody's to label.
        operated.snapshot("of-blue", jobRef={"name": "blue"})
        with operated.driver(name="blue") as driver:
            operated.kubelet.run("blue-driver-1")
            driver.complete(driver.until_asked(), "s3://bucket/savepoint-1")
            operated.until_snapshot("of-blue", "Completed")
        found = cluster.get("snap", "of-blue", namespace)
        assert found is not None
        assert marks(found) == f"default/{namespace}-second@blue"
        assert found["metadata"]["labels"][labels.OPERATOR_CLASS] == "blue"
        assert "ManagedByAnother" not in operated.reasons()

        pod = operated.until_pod(1)["metadata"]["uid"]
        cluster.kubectl("label", "ssj", "orders", "-n", namespace, f"{labels.OPERATOR_CLASS}=blue")
        cluster.until(
            lambda: marks(operated.job()) == f"default/{namespace}-second@blue", "it changes hands", 40
        )
        operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
        operated.running(2)
        assert operated.status()["restarts"]["operator"] == 1
        assert operated.until_pod(2)["metadata"]["uid"] != pod
        assert other.errors() == []
    assert "ManagedByAnother" not in operated.reasons()


def test_a_deletion_that_has_begun_is_ended_by_its_operator_whatever_class_the_job_has_then(
    operated: OperatedNamespace,
) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    first = operated.start()
    operated.apply(deletion={"policy": "savepoint", "deadline": "15s"})
    operated.running()
    cluster.kubectl("delete", "ssj", "orders", "-n", namespace, "--wait=false")
    cluster.until(lambda: operated.status().get("phase") == "Deleting", "the deletion has begun", 40)
    cluster.kubectl("label", "ssj", "orders", "-n", namespace, f"{labels.OPERATOR_CLASS}=nobodys")
    cluster.until(lambda: cluster.get("ssj", "orders", namespace) is None, "the job is gone", 60)
    assert first.errors() == []


def test_a_job_that_was_given_away_while_no_operator_ran_is_let_go(operated: OperatedNamespace) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    first = operated.start()
    operated.apply()
    operated.running()
    first.stop()
    cluster.kubectl("label", "ssj", "orders", "-n", namespace, f"{labels.OPERATOR_CLASS}=nobodys")
    operated.start()
    cluster.until(lambda: "LeftToClass" in operated.reasons(), "its operator lets it go", 40)
    meta = operated.job()["metadata"]
    assert marks(operated.job()) == ""
    assert labels.FINALIZER not in meta.get("finalizers", ())
    assert operated.until_pod(1), "its pod runs on"


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a second operator of the same class begins over the namespace, and finds a job that runs",
    when="the job's driver has progress to tell",
    expected="the second one writes nothing about it",
)
def test_a_job_of_another_operator_is_not_taken_over_by_who_finds_it_running(
    operated: OperatedNamespace,
) -> None:
    cluster = operated.cluster
    # The first one writes no progress, so that there is some left to write.
    operated.start(options=["--progress-seconds", "3600"])
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(1)
        operated.running()
        operated.until_checkpoint(1)
        mark = cluster.audit.mark()
        driver.checkpoints_done(2)
        with second(operated, **{"progress-seconds": "1", "resync-seconds": "100000"}):
            cluster.until(lambda: told(operated, "orders"), "it says whose the job is", 60)
            driver.checkpoints_done(3)
            time.sleep(12)
            assert touched(operated, mark) == []
            assert operated.checkpoint() == 1


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a job is given to an operator of another class, which is not there",
    when="its driver's progress is written without a look",
    expected="its operator lets it go, and writes nothing else about it",
)
def test_of_a_job_that_was_given_away_no_progress_is_written(operated: OperatedNamespace) -> None:
    cluster = operated.cluster
    kubeconfig = operator_account.make(cluster, operated.namespace)
    operated.start(kubeconfig=kubeconfig, options=["--progress-seconds", "1", "--resync-seconds", "100000"])
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        for number in (1, 2):
            driver.checkpoints_done(number)
            operated.running()
            operated.until_checkpoint(number)
        mark = cluster.audit.mark()  # before the label: the operator may be quicker than kubectl's end
        cluster.kubectl("label", "ssj", "orders", "-n", operated.namespace, f"{labels.OPERATOR_CLASS}=blue")
        driver.checkpoints_done(3)
        time.sleep(15)
        assert touched(operated, mark) == [("patch", "statefulsparkjobs", "orders")], "it is let go"
        assert operated.checkpoint() == 2
