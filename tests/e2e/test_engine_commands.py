"""Commands of the engine that the operator runs: on data that lies on a claim, and on what is in flight."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.node_job import MOUNT

from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers.fault_proxy import FaultProxy
from sparkstate_tools.servers.http_wire import Message
from sparkstate_tools.servers.s3server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]
PULLING = "registry-login"


def snapshot(job: FlightsJob, name: str) -> dict[str, Any]:
    """A savepoint of the job whose data goes with its object."""
    return {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StateSnapshot",
        "metadata": {"name": name, "namespace": job.namespace},
        "spec": {"jobRef": {"name": job.name}, "deletionPolicy": "Delete"},
    }


def data(folder: Path) -> list[Path]:
    """Files of state below a folder: not the log and the pointers, which stay."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if path.parent.name != "log" and "by-name" not in path.parts]


def test_a_job_on_a_claim_is_purged_by_a_command_that_has_its_claim_and_its_pull_secrets(
    make_job: MakeJob,
) -> None:
    here = f"file://{MOUNT}"
    job = make_job(
        checkpointing={"storage": f"{here}/state", "interval": "4s"},
        savepoints={"storage": f"{here}/savepoints"},
        imagePullSecrets=[{"name": PULLING}],
        deletion={"policy": "purge"},
    )
    login = base64.b64encode(b'{"auths": {}}').decode()
    meta = {"name": PULLING, "namespace": job.namespace}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "kubernetes.io/dockerconfigjson",
    }
    job.cluster.apply({**secret, "data": {".dockerconfigjson": login}})
    job.apply()
    job.feed(interval_s=5.0)
    job.until_checkpoint_after(0, 300)
    job.cluster.apply(snapshot(job, "kept"))
    ready = ("wait", "--for=condition=Ready", "--timeout=120s", "-n", job.namespace, "snap/kept")
    job.cluster.kubectl(*ready)
    assert data(job.folder / "state") != []
    assert data(job.folder / "savepoints") != []

    job.cluster.kubectl("delete", "snap", "kept", "-n", job.namespace, "--timeout=180s")
    assert data(job.folder / "savepoints") == [], "a snapshot's data goes with it"

    job.cluster.kubectl("delete", "ssj", job.name, "-n", job.namespace, "--wait=false")
    command = job.cluster.until(
        lambda: job.cluster.items("jobs.batch", job.namespace), "the engine's command is there", 120
    )[0]["spec"]["template"]["spec"]
    assert command["imagePullSecrets"] == [{"name": PULLING}]
    assert f"{job.name}-data" in json.dumps(command["volumes"])
    job.cluster.until_gone("ssj", job.name, job.namespace, 180)
    assert data(job.folder / "state") == []


def test_a_snapshot_that_is_deleted_in_flight_leaves_no_data(
    make_job: MakeJob, proxy: FaultProxy, proxied: Bucket, storage: S3Server
) -> None:
    held, let_go = threading.Event(), threading.Event()

    def hold(request: Message) -> None:
        if request.words[0] in ("PUT", "POST") and "/savepoints/" in request.words[1]:
            held.set()
            let_go.wait(120)

    job = make_job(through=proxied)
    job.apply()
    job.feed(interval_s=5.0)
    job.until_checkpoint_after(0, 300)
    proxy.watch = hold
    job.cluster.apply(snapshot(job, "early"))
    assert held.wait(120), "the savepoint was begun"
    job.cluster.kubectl("delete", "snap", "early", "-n", job.namespace, "--wait=false")
    kept = storage.folder / "data" / "state" / job.namespace / "savepoints"
    with pytest.raises(AssertionError, match="it is not so"):
        job.cluster.until_gone("snap", "early", job.namespace, timeout_s=10)
    let_go.set()
    job.cluster.until_gone("snap", "early", job.namespace, timeout_s=240)
    assert data(kept) == []
    assert job.status["attempt"] == 1
    job.finish()
    job.check()
