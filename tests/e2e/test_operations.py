"""What people do with a job: suspend, resume, rescale, copy, delete; nothing is lost and nothing is there twice."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.nodes.flights import FlightsJob

from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers.fault_proxy import FaultProxy
from sparkstate_tools.servers.s3server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]


def started(job: FlightsJob) -> None:
    """Applied, fed, with a completed checkpoint."""
    job.apply()
    job.feed(interval_s=5.0)
    job.until_checkpoint_after(0, 240)


def objects(storage: S3Server, prefix: str) -> list[Path]:
    """What the bucket holds below a prefix."""
    return [path for path in (storage.folder / "data" / "state" / prefix).rglob("*") if path.is_file()]


def test_a_suspended_job_has_no_pods_and_goes_on_where_it_was(make_job: MakeJob) -> None:
    job = make_job()
    started(job)
    job.patch({"state": "suspended"})
    status = job.until_phase("Suspended")
    assert job.pods() == []
    job.patch({"state": "running"})
    job.until(
        lambda now: (
            now["phase"] == "Running" and now["lastCheckpoint"]["id"] > status["lastCheckpoint"]["id"]
        ),
        "it runs and completes checkpoints",
        180,
    )
    job.finish()
    job.check()


def test_a_job_is_scaled_up_and_down_by_kubectl(make_job: MakeJob) -> None:
    job = make_job()
    started(job)
    for slots in (3, 2):
        job.cluster.kubectl("scale", "ssj", job.name, "-n", job.namespace, f"--replicas={slots}")
        job.until(
            lambda now, slots=slots: now["phase"] == "Running" and now.get("slots") == slots,
            f"it runs with {slots} slots",
            180,
        )
        job.until_checkpoint_after(int(job.status["lastCheckpoint"]["id"]))
    job.finish()
    job.check()


def test_another_job_begins_with_a_snapshot_of_the_first(make_job: MakeJob) -> None:
    first = make_job(upgradeMode="savepoint")
    started(first)
    first.patch({"state": "suspended"})
    saved = first.until_phase("Suspended")["lastSavepoint"]
    done = first.written()
    second = make_job("second", restoreFrom={"uri": saved["uri"]})
    second.take_over(first)
    second.apply()
    second.until_checkpoint_after(0, 240)
    second.finish(before=done)
    second.check(before=done)


def test_another_job_begins_with_a_state_snapshot_of_a_job_that_runs_on(make_job: MakeJob) -> None:
    first = make_job()
    started(first)
    first.stop_feeding()
    # Everything that it was given is in its state or written when its epochs stay without input.
    newest = first.status["lastCheckpoint"]["id"]
    first.until_checkpoint_after(newest + 2)
    snapshot = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StateSnapshot",
        "metadata": {"name": "before-the-copy", "namespace": first.namespace},
        "spec": {"jobRef": {"name": first.name}},
    }
    first.cluster.apply(snapshot)
    first.cluster.kubectl(
        "wait", "--for=condition=Ready", "--timeout=120s", "-n", first.namespace, "snap/before-the-copy"
    )
    done = first.written()
    second = make_job("second", restoreFrom={"snapshotRef": {"name": "before-the-copy"}})
    second.take_over(first)
    second.apply()
    second.until_checkpoint_after(0, 240)
    second.finish(before=done)
    second.check(before=done)
    first.finish()
    first.check()


def test_an_upgrade_of_the_image_goes_by_a_savepoint(make_job: MakeJob, machine: NodeCluster) -> None:
    job = make_job(upgradeMode="savepoint")
    started(job)
    other = f"{job.image.rpartition(':')[0]}:next"
    for node in machine.nodes:
        node.ctr("-n", "k8s.io", "images", "tag", "--force", f"docker.io/{job.image}", f"docker.io/{other}")
    job.patch({"image": other})
    status = job.until(
        lambda now: now["phase"] == "Running" and now["attempt"] > 1, "it runs with the other image", 240
    )
    assert status["lastSavepoint"]["uri"]
    assert [each["image"] for each in job.driver()["spec"]["containers"]] == [other]
    job.until_checkpoint_after(int(status["lastCheckpoint"]["id"]))
    # Nothing was committed after the savepoint, which the next driver begins with, or with a checkpoint of that epoch.
    assert re.search(rf"restoring .*\(epoch {status['lastSavepoint']['epoch']}\)", job.driver_log())
    job.finish()
    job.check()


def test_a_retained_job_is_created_again_under_its_name(make_job: MakeJob, storage: S3Server) -> None:
    job = make_job(deletion={"policy": "retain"})
    started(job)
    job.cluster.kubectl("delete", "ssj", job.name, "-n", job.namespace, "--timeout=120s")
    assert job.pods() == []
    assert objects(storage, f"{job.namespace}/state") != []
    job.apply({"restoreFrom": {"latest": True}})
    job.until_checkpoint_after(0, 240)
    job.finish()
    job.check()


def test_a_job_that_is_deleted_with_a_savepoint_leaves_it(make_job: MakeJob, storage: S3Server) -> None:
    job = make_job(deletion={"policy": "savepoint"})
    started(job)
    job.cluster.kubectl("delete", "ssj", job.name, "-n", job.namespace, "--timeout=120s")
    assert job.pods() == []
    assert [
        path for path in objects(storage, f"{job.namespace}/savepoints") if path.name == "_metadata"
    ] != []


def test_a_purged_job_leaves_no_data_in_storage(make_job: MakeJob, storage: S3Server) -> None:
    job = make_job(deletion={"policy": "purge"})
    started(job)
    assert objects(storage, f"{job.namespace}/state") != []
    job.cluster.kubectl("delete", "ssj", job.name, "-n", job.namespace, "--timeout=180s")
    left = objects(storage, job.namespace)
    # The log and the pointer stay, so that a driver that still lives is fenced off and the name begins anew.
    assert [path for path in left if path.parent.name != "log" and "by-name" not in path.parts] == []
    job.apply()
    status = job.until_checkpoint_after(0, 240)
    assert status["attempt"] == 1
    assert "has completed nothing yet; the state begins empty" in job.driver_log()


@pytest.mark.parametrize("policy", ["savepoint", "retain", "purge"])
def test_a_job_is_deleted_by_its_deadline_even_when_storage_is_gone(
    make_job: MakeJob, proxy: FaultProxy, proxied: Bucket, policy: str
) -> None:
    job = make_job(through=proxied, deletion={"policy": policy, "deadline": "40s"})
    started(job)
    proxy.cut_off_after(0)
    before = time.monotonic()
    job.cluster.kubectl("delete", "ssj", job.name, "-n", job.namespace, "--timeout=150s")
    print(f"deletion with policy {policy}, without storage: {time.monotonic() - before:.1f} s", flush=True)
    job.cluster.until(lambda: not job.pods(), "no driver is left", 60)
