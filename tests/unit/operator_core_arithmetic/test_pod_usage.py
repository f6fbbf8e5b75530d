"""A pod's share of a quota. Everything but the driver's container comes from the template."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from support.cluster.quotas import apart, near
from support.scene.decisions import SPEC, job

from sparkstate_operator import plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import pod_usage, quota, settings
from sparkstate_operator.core.pod_usage import NOTHING, PodUsage
from sparkstate_operator.core.quota import Scope
from sparkstate_operator.objects import driver, parts

MI, GI = 1 << 20, 1 << 30


def usage(*, qos: str = "Burstable", **template: Any) -> PodUsage:
    """Of the driver's pod with this template, as the API server would have it."""
    wanted = settings.resolve({**SPEC, "driverTemplate": {"spec": template}})
    context = parts.Context(job(), plan.Revision("orders-2", wanted), Config())
    return pod_usage.read({**driver.pod(context, 2), "status": {"qosClass": qos}})


def asking(memory: str, *, limit: str = "", cpu: str = "1m", **fields: Any) -> dict[str, Any]:
    limits = {"limits": {"memory": limit}} if limit else {}
    resources = {"requests": {"memory": memory, "cpu": cpu}, **limits}
    return {"name": f"{memory.lower()}-{len(fields)}", "image": "a:1", "resources": resources, **fields}


def sidecar(memory: str, **fields: Any) -> dict[str, Any]:
    return asking(memory, restartPolicy="Always", **fields)


PLAIN = usage().sums()
OWN = PLAIN["requests.memory"]
HUGE = "64Gi"
"""More than the driver and all beside it."""

MEMORY: dict[str, tuple[dict[str, Any], Fraction]] = {
    "a container beside it": ({"containers": [asking("512Mi")]}, OWN + 512 * MI),
    "a small init container": ({"initContainers": [asking("64Mi")]}, OWN),
    "a large init container": ({"initContainers": [asking("64Mi"), asking(HUGE)]}, Fraction(64 * GI)),
    "a sidecar": ({"initContainers": [sidecar("256Mi")]}, OWN + 256 * MI),
    "a large one before the sidecar": (
        {"initContainers": [asking(HUGE), sidecar("256Mi")]},
        Fraction(64 * GI),
    ),
    "a large one behind sidecars": (
        {"initContainers": [sidecar("256Mi"), sidecar("128Mi"), asking(HUGE)]},
        Fraction(64 * GI + 384 * MI),
    ),
    "a large one between sidecars": (
        {"initContainers": [sidecar("256Mi"), asking(HUGE), sidecar("128Mi")]},
        Fraction(64 * GI + 256 * MI),
    ),
    "an overhead": ({"overhead": {"memory": "120Mi"}}, OWN + 120 * MI),
    "an overhead of a large init container": (
        {"overhead": {"memory": "120Mi"}, "initContainers": [asking(HUGE)]},
        Fraction(64 * GI + 120 * MI),
    ),
    "the pod's own": (
        {"resources": {"requests": {"memory": "8Gi"}}, "containers": [asking("512Mi")]},
        Fraction(8 * GI),
    ),
}


@pytest.mark.parametrize(("template", "bytes_"), MEMORY.values(), ids=MEMORY)
def test_the_containers_that_run_at_one_time_count(template: dict[str, Any], bytes_: Fraction) -> None:
    found = usage(**template).sums()
    assert found["requests.memory"] == found["memory"] == bytes_
    assert found["pods"] == found["count/pods"] == 1


def test_each_resource_has_its_own_peak() -> None:
    found = usage(initContainers=[asking(HUGE), asking("1Mi", cpu="100")]).sums()
    assert (found["requests.memory"], found["requests.cpu"]) == (64 * GI, 100)


def test_an_init_container_s_limit_counts_as_its_request_does() -> None:
    found = usage(initContainers=[asking("1Mi", limit=HUGE)]).sums()
    assert (found["limits.memory"], found["requests.memory"]) == (64 * GI, OWN)


def test_an_overhead_is_added_to_a_limit_only_where_there_is_one() -> None:
    found = usage(overhead={"memory": "120Mi", "cpu": "250m"}).sums()
    assert found["limits.memory"] == PLAIN["limits.memory"] + 120 * MI
    assert found["requests.cpu"] == PLAIN["requests.cpu"] + Fraction(1, 4)
    assert "limits.cpu" not in found


def test_a_resource_is_called_as_quotas_call_it() -> None:
    resources = {"requests": {"cpu": "1", "example.com/gpu": 2, "hugepages-2Mi": "4Mi"}}
    given = {"containers": [{"resources": {**resources, "limits": {"memory": "1Gi"}}}, {}]}
    assert pod_usage.read({"spec": given}).sums() == {
        "pods": 1,
        "count/pods": 1,
        "requests.cpu": 1,
        "cpu": 1,
        "requests.example.com/gpu": 2,
        "requests.hugepages-2Mi": 4 * MI,
        "hugepages-2Mi": 4 * MI,
        "limits.memory": GI,
    }


# -- scopes ------------------------------------------------------------------------------------------------------------


PODS = {
    "plain": usage(),
    "high": usage(priorityClassName="high"),
    "low": usage(priorityClassName="low"),
    "short": usage(activeDeadlineSeconds=60),
    "near": usage(affinity=near()),
    "near others": usage(affinity=near(namespaces=["kafka"])),
    "apart from all": usage(affinity=apart(namespaceSelector={})),
    "idle": usage(qos="BestEffort"),
}
COUNTED: dict[str, tuple[list[Scope], set[str]]] = {
    "no scope": ([], set(PODS)),
    "Terminating": ([Scope("Terminating")], {"short"}),
    "NotTerminating": ([Scope("NotTerminating")], set(PODS) - {"short"}),
    "BestEffort": ([Scope("BestEffort")], {"idle"}),
    "NotBestEffort": ([Scope("NotBestEffort")], set(PODS) - {"idle"}),
    "both": ([Scope("NotBestEffort"), Scope("Terminating")], {"short"}),
    "contradictory": ([Scope("BestEffort"), Scope("Terminating")], set()),
    "PriorityClass": ([Scope("PriorityClass")], {"high", "low"}),
    "In": ([Scope("PriorityClass", "In", ("high", "higher"))], {"high"}),
    "NotIn": ([Scope("PriorityClass", "NotIn", ("high", "higher"))], set(PODS) - {"high"}),
    "DoesNotExist": ([Scope("PriorityClass", "DoesNotExist")], set(PODS) - {"high", "low"}),
    "CrossNamespacePodAffinity": (
        [Scope("CrossNamespacePodAffinity")],
        {"near others", "apart from all"},
    ),
    "of a later Kubernetes": ([Scope("Sunny")], set()),
}


@pytest.mark.parametrize(("scopes", "counted"), COUNTED.values(), ids=COUNTED)
def test_a_quota_counts_the_pods_that_meet_all_of_its_scopes(scopes: list[Scope], counted: set[str]) -> None:
    assert {name for name, pod in PODS.items() if quota.counts(scopes, pod)} == counted


def test_the_scopes_of_a_quota_come_in_two_fields() -> None:
    expressions = [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
        {"scopeName": "BestEffort", "operator": "Exists"},
    ]
    spec = {"scopes": ["NotTerminating"], "scopeSelector": {"matchExpressions": expressions}}
    assert quota.scopes(spec) == (
        Scope("NotTerminating"),
        Scope("PriorityClass", "In", ("high",)),
        Scope("BestEffort"),
    )
    assert quota.scopes({"hard": {"pods": "1"}}) == ()


def test_only_pods_that_the_quota_counts_make_room() -> None:
    full = "exceeded quota: high, requested: pods=1, used: pods=1, limited: pods=1"
    high = [Scope("PriorityClass", "In", ("high",))]
    assert quota.fits_after(full, [PODS["plain"]])
    assert not quota.fits_after(full, [PODS["plain"], PODS["low"]], high)
    assert quota.fits_after(full, [PODS["plain"], PODS["high"]], high)


@pytest.mark.parametrize("text", ["", "no", 'admission webhook "x" denied the request', "exceeded quota: x"])
def test_no_other_refusal_is_taken_for_a_quota(text: str) -> None:
    assert not quota.fits_after(text, [NOTHING])
    assert quota.named(text) == ""
