"""The operator is killed before and after each of its writes and started again; the job's life goes on as if nothing
had been. The list of writes is the code's own; the last test fails when one has no scenario here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparkstate.control.documents import DriverPhase
from sparkstate_operator import hooks
from sparkstate_operator.actions import Write
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating.operated_namespace import OperatedNamespace
from sparkstate_tools.operating.operator_process import Operator

URI = "s3://bucket/state/savepoints/savepoint-1"
MOMENTS = (pytest.param("before", marks=pytest.mark.extra), "after")
"""A death before a write leaves what a death after the write before it leaves, but for looks in between."""
AT_ONCE = 4

START = (
    Write.ADD_FINALIZER, Write.CREATE_REVISION, Write.WRITE_STATUS, Write.APPLY_SERVICE, Write.APPLY_SERVICE_ACCOUNT,
    Write.APPLY_ROLE_BINDING, Write.CREATE_SECRET, Write.CREATE_CONFIG_MAP, Write.CREATE_POD,
    Write.CREATE_EVENT,
)  # fmt: skip
HANDOVER = (Write.LET_CLAIM,)
FAILOVER = (Write.DELETE_POD, Write.DELETE_SECRET, Write.DELETE_CONFIG_MAP)
SNAPSHOT = (
    Write.CREATE_SNAPSHOT, Write.WRITE_SNAPSHOT_STATUS, Write.TRIGGER_SAVEPOINT, Write.DELETE_SNAPSHOT,
    Write.CREATE_COMMAND, Write.DELETE_COMMAND,
)  # fmt: skip
REGISTERED = (Write.CREATE_COMMAND, Write.DELETE_COMMAND)
IN_FLIGHT = (Write.CREATE_COMMAND, Write.DELETE_COMMAND, Write.REMOVE_FINALIZER)
EXPIRY = (Write.DELETE_JOB,)
DELETION = (Write.DELETE_CHILD, Write.DELETE_REVISION, Write.REMOVE_FINALIZER)


class Restarted:
    """A namespace whose operator dies once, at one write, and is started again without that."""

    def __init__(self, operated: OperatedNamespace, moment: str, write: Write) -> None:
        self.operated = operated
        self.moment, self.write = moment, write
        self.crashed = False

    def start(self, *, crashing: bool) -> Operator:
        environment = {hooks.VARIABLE: f"{self.moment}:{self.write}"} if crashing else {}
        return self.operated.start(environment=environment)

    def until(self, probe: Callable[[], object], what: str, timeout_s: float = 150) -> None:
        """As the cluster's, and the operator is started again when it dies."""

        def looked() -> object:
            operator = self.operated.operator
            if operator is not None and not operator.alive:
                assert operator.process.returncode == hooks.EXIT_CODE, operator.log.read_text()[-2000:]
                assert not self.crashed, "it died a second time"
                self.crashed = True
                self.start(crashing=False)
            return probe()

        try:
            self.operated.cluster.until(looked, what, timeout_s, every_s=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.operated.status()}; {self.operated.log_tail()}") from None


def begin(restarted: Restarted) -> None:
    operated = restarted.operated
    operated.cluster.apply(operated.document(deployment="cluster", slots=2))
    restarted.start(crashing=True)


def run_newest(restarted: Restarted) -> None:
    """Play the kubelet for whichever attempt comes, until the job runs."""
    operated = restarted.operated

    def running() -> bool:
        for pod in operated.cluster.items("pods", operated.namespace, "sparkstate.io/role=driver"):
            meta = pod["metadata"]
            if "deletionTimestamp" in meta and pod["spec"].get("nodeName"):
                operated.kubelet.finish_deletion(meta["name"])
            elif pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in meta:
                operated.kubelet.run(meta["name"])
        for command in operated.cluster.items("jobs", operated.namespace):
            if not command.get("status", {}).get("conditions"):  # a status lost before it was written
                operated.finish_command(command["metadata"]["name"], {"ok": True, "found": False})
        return operated.status().get("phase") == "Running" and "intent" not in operated.status()

    restarted.until(running, "the job runs")


def start_life(restarted: Restarted) -> None:
    begin(restarted)
    run_newest(restarted)
    restarted.until(lambda: restarted.crashed, "the write was reached", 10)
    run_newest(restarted)


def failover_life(restarted: Restarted) -> None:
    operated = restarted.operated
    begin(restarted)
    run_newest(restarted)
    attempt = operated.status()["attempt"]
    operated.kubelet.end(f"{operated.name}-driver-{attempt}", 1, {"reason": "SlotLost", "message": "gone"})
    restarted.until(lambda: operated.status()["attempt"] > attempt, "the next attempt is begun")
    run_newest(restarted)
    gone = f"{operated.name}-{attempt}"
    restarted.until(
        lambda: operated.cluster.get("configmap", gone, operated.namespace) is None, f"{gone} is gone"
    )
    restarted.until(lambda: restarted.crashed, "the write was reached", 10)


def handover_life(restarted: Restarted) -> None:
    """A driver is asked to end and dies without a word, beside the next one, which waits for it."""
    operated = restarted.operated
    begin(restarted)
    run_newest(restarted)
    attempt = operated.status()["attempt"]
    older, newer = (f"{operated.name}-driver-{number}" for number in (attempt, attempt + 1))
    operated.cluster.kubectl("delete", "pod", older, "-n", operated.namespace, "--wait=false")
    restarted.until(lambda: operated.cluster.get("pod", newer, operated.namespace), "the next pod is there")
    with operated.driver(attempt + 1) as driver:
        driver.update(phase=DriverPhase.STARTING, waits_for_attempt=attempt)
        operated.kubelet.run(newer, ready=False)
        operated.kubelet.end(older, 137)
        restarted.until(lambda: driver.alone, "the next driver is told")
        operated.kubelet.gone(older)
        driver.update(phase=DriverPhase.RUNNING, waits_for_attempt=None)
        operated.kubelet.run(newer)
        restarted.until(lambda: operated.status().get("phase") == "Running", "the job runs")
        assert operated.status()["attempt"] == attempt + 1
        restarted.until(lambda: restarted.crashed, "the write was reached", 10)


def snapshot_life(restarted: Restarted) -> None:
    operated = restarted.operated
    spec = {"savepoints": {"interval": "4s", "maxCount": 1}}
    operated.cluster.apply(operated.document(**spec))
    restarted.start(crashing=True)
    restarted.until(
        lambda: operated.cluster.get("pod", "orders-driver-1", operated.namespace), "the pod is there"
    )
    with operated.driver() as driver:
        operated.kubelet.run("orders-driver-1")

        def a_command_ran() -> bool:
            for request in driver.requests():
                driver.complete(request, f"{URI}-{request.trigger_id}")
            for command in operated.cluster.items("jobs", operated.namespace):
                if not command.get("status", {}).get("conditions"):
                    operated.finish_command(command["metadata"]["name"])
            return restarted.crashed and "DataDeleted" in operated.reasons()

        restarted.until(a_command_ran, "a savepoint was taken and its data deleted")
        triggers = [request.trigger_id for request in driver.requests()]
        assert len(triggers) == len(set(triggers))


def registered_life(restarted: Restarted) -> None:
    """A savepoint that is there is registered: the engine reads it, once or again, and it counts then."""
    operated = restarted.operated
    restarted.start(crashing=True)
    operated.register("old", URI)

    def known() -> bool:
        for command in operated.cluster.items("jobs", operated.namespace):
            if not command.get("status", {}).get("conditions"):
                operated.finish_command(command["metadata"]["name"], {"ok": True, "epoch": 5})
        status = (operated.cluster.get("snap", "old", operated.namespace) or {}).get("status") or {}
        return status.get("phase") == "Completed" and status.get("epoch") == 5

    restarted.until(known, "the savepoint counts")
    restarted.until(lambda: restarted.crashed, "the write was reached", 10)
    restarted.until(known, "the savepoint counts")


def in_flight_life(restarted: Restarted) -> None:
    """A snapshot is deleted while its savepoint is taken: its data goes, and then the object."""
    operated = restarted.operated
    operated.cluster.apply(operated.document())
    restarted.start(crashing=True)
    pod = "orders-driver-1"
    restarted.until(lambda: operated.cluster.get("pod", pod, operated.namespace), "the pod is there")
    with operated.driver() as driver:
        operated.kubelet.run(pod)
        restarted.until(lambda: operated.status().get("phase") == "Running", "the job runs")
        operated.snapshot("one", deletionPolicy="Delete")
        restarted.until(driver.requests, "the savepoint is asked for")
        operated.cluster.kubectl("delete", "snap", "one", "-n", operated.namespace, "--wait=false")
        driver.complete(driver.requests()[0], URI)
        deleted: set[str] = set()

        def gone() -> bool:
            for command in operated.cluster.items("jobs", operated.namespace):
                (container,) = command["spec"]["template"]["spec"]["containers"]
                deleted.add(container["args"][-1])
                if not command.get("status", {}).get("conditions"):
                    operated.finish_command(command["metadata"]["name"], {"ok": True, "deleted": [URI]})
            return operated.cluster.get("snap", "one", operated.namespace) is None

        restarted.until(gone, "the object is gone")
        restarted.until(lambda: restarted.crashed, "the write was reached", 10)
        assert deleted == {URI}, "the object went without its data"
        assert len(driver.requests()) == 1


def deletion_life(restarted: Restarted) -> None:
    operated = restarted.operated
    begin(restarted)
    run_newest(restarted)
    operated.delete()

    def gone() -> bool:
        for pod in operated.cluster.items("pods", operated.namespace, "sparkstate.io/role=driver"):
            if "deletionTimestamp" in pod["metadata"]:
                operated.kubelet.finish_deletion(pod["metadata"]["name"])
        return operated.cluster.get("ssj", operated.name, operated.namespace) is None

    restarted.until(gone, "the job is gone")
    restarted.until(lambda: restarted.crashed, "the write was reached", 10)
    for kind in ("pods", "configmaps", "services", "secrets", "serviceaccounts", "controllerrevisions"):
        assert operated.cluster.items(kind, operated.namespace, "sparkstate.io/job=orders") == []


def expiry_life(restarted: Restarted) -> None:
    """A job finishes and is deleted after its time, by the operator itself."""
    operated = restarted.operated
    operated.cluster.apply(operated.document(ttlSecondsAfterFinished=2))
    restarted.start(crashing=True)
    run_newest(restarted)
    operated.kubelet.end("orders-driver-1", 0, {"reason": "Finished", "message": "all is committed"})
    restarted.until(
        lambda: operated.cluster.get("ssj", operated.name, operated.namespace) is None, "the job is gone"
    )
    restarted.until(lambda: restarted.crashed, "the write was reached", 10)
    assert "Expired" in operated.reasons()


@contextlib.contextmanager
def namespaced(cluster: Cluster, folder: Path) -> Iterator[OperatedNamespace]:
    with cluster.namespace() as namespace:
        folder.mkdir()
        operated = OperatedNamespace(cluster, namespace, folder)
        try:
            yield operated
        finally:
            operated.end()


def one_attempt_one_pod(operated: OperatedNamespace) -> None:
    """No two pods ever bore the same name."""
    if operated.cluster.foreign:
        return
    made = [
        request.name or request.answered["metadata"]["name"]
        for request in operated.cluster.audit.writes()
        if (request.verb, request.resource, request.namespace, request.code)
        == ("create", "pods", operated.namespace, 201)
        and not request.subresource
    ]
    assert len(made) == len(set(made)), made


@pytest.mark.slow
@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("life", "writes"),
    [
        pytest.param(start_life, START, id="start"),
        pytest.param(failover_life, FAILOVER, id="failover"),
        pytest.param(handover_life, HANDOVER, id="handover"),
        pytest.param(snapshot_life, SNAPSHOT, id="snapshot"),
        pytest.param(registered_life, REGISTERED, id="registered"),
        pytest.param(in_flight_life, IN_FLIGHT, id="in flight"),
        pytest.param(expiry_life, EXPIRY, id="expiry"),
        pytest.param(deletion_life, DELETION, id="deletion"),
    ],
)
def test_a_crash_at_any_write_changes_nothing_in_the_end(
    cluster: Cluster,
    tmp_path: Path,
    life: Callable[[Restarted], None],
    writes: tuple[Write, ...],
    moment: str,
) -> None:
    def live(write: Write) -> str:
        try:
            with namespaced(cluster, tmp_path / write) as operated:
                restarted = Restarted(operated, moment, write)
                life(restarted)
                assert restarted.crashed, "the write was never reached"
                one_attempt_one_pod(operated)
        except Exception as error:
            return f"{moment} {write}: {type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = [told for told in pool.map(live, writes) if told]
    assert not failed, "\n\n".join(failed)


def test_every_write_of_the_operator_has_its_crash() -> None:
    assert {*START, *FAILOVER, *HANDOVER, *SNAPSHOT, *EXPIRY, *DELETION} == set(Write)
