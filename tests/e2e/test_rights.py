"""What drivers ask of the API server, by its audit log: all that their role grants, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.node_job import IN_THE_CLUSTER

from sparkstate_operator import rbac
from sparkstate_operator.core import naming

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]
Right = tuple[str, str, str]
ALWAYS = {"create", "list", "watch", "delete", "deletecollection"}
"""What a driver uses in a life with an executor that fails and an end with a savepoint. One that is asked to end in
haste leaves its executors to the garbage collector."""
KEPT = {
    # Spark then reads its own pod, to own the executors: `get`.
    "spark.kubernetes.executor.podTemplateFile": "/etc/sparkstate/job/executor.yaml",
    # Spark then marks the failed executor: `patch`.
    "spark.kubernetes.executor.deleteOnTermination": "false",
}
"""What a job may ask of Spark that needs the other verbs."""


def fail_an_executor(job: FlightsJob) -> None:
    """Its process ends, and so its pod has failed; a checkpoint comes after that."""
    lost = job.status["lastCheckpoint"]["id"]
    name = min(pod["metadata"]["name"] for pod in job.pods("executor") if pod["status"]["phase"] == "Running")
    words = ("exec", name, "-n", job.namespace, "-c", "executor", "--")
    job.cluster.kubectl(*words, "python", "-c", "import os; os.kill(1, 15)")
    job.until_checkpoint_after(lost + 1)


def test_a_driver_uses_every_right_of_its_role_and_asks_for_no_other(make_job: MakeJob) -> None:
    job = make_job(**IN_THE_CLUSTER, upgradeMode="savepoint")
    audit = job.cluster.audit
    mark = audit.mark()
    user = f"system:serviceaccount:{job.namespace}:{naming.service_account(job.name)}"

    def used() -> set[Right]:
        requests = [one for one in audit.since(mark, user) if one.resource]
        for what, count in sorted(Counter((*one.right, one.code) for one in requests).items()):
            print(count, what, flush=True)
        assert {one.namespace for one in requests} == {job.namespace}
        return {one.right for one in requests}

    job.apply()
    job.feed(interval_s=5.0)
    job.until_checkpoint_after(1, 240)
    fail_an_executor(job)
    conf = {**job.manifest()["spec"]["sparkConf"], **KEPT}
    job.patch({"sparkConf": conf})
    job.until(lambda now: now["attempt"] == 2 and now["phase"] == "Running", "it has the other conf", 300)
    assert used() - {("get", "", "pods")} == {(verb, "", "pods") for verb in ALWAYS}
    job.until_checkpoint_after(job.status["lastCheckpoint"]["id"])
    fail_an_executor(job)
    job.finish()
    job.check()
    (rule,) = rbac.driver_rules()
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
    assert used() == {(verb, "", "pods") for verb in rule["verbs"]}
