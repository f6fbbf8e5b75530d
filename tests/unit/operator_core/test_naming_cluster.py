"""What an operator calls its cluster in storage, by what it finds there; against objects that live in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import decisions

from sparkstate_operator import actions, errors, labels, naming_cluster, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import LeaseSettings
from sparkstate_operator.objects import parts, tasks

LEASE = LeaseSettings("ops", "sparkstate-operator", "me", 15)


class Objects:
    """A few objects, by kind and name. ``away``: so many requests are not answered."""

    def __init__(self, lease: dict[str, Any] | None, jobs: list[dict[str, Any]], away: int = 0) -> None:
        self._lease, self._jobs, self._away = lease, jobs, away
        self.asked: list[str] = []

    async def get(self, kind: k.Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        self.asked.append(f"{kind.plural}/{name}")
        if self._away:
            self._away -= 1
            raise errors.ApiError(0, "no answer")
        if kind is k.LEASES:
            assert (namespace, name) == ("ops", "sparkstate-operator")
            return self._lease
        return {"metadata": {"uid": f"uid-of-{name}"}}

    async def list(self, kind: k.Kind, namespace: str | None) -> list[dict[str, Any]]:
        self.asked.append(f"{kind.plural} of {namespace}")
        return self._jobs


def lease(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "sparkstate-operator", **({"annotations": annotations} if annotations else {})}
    }


def found(objects: Objects, cluster: str = "", namespaces: tuple[str, ...] = ()) -> str:
    config = Config(cluster=cluster, namespaces=namespaces)
    return asyncio.run(naming_cluster.find(objects, config, LEASE))  # type: ignore[arg-type]


RAN: dict[str, Any] = {"status": {"attempt": 3}}
NAMED: dict[str, Any] = {"status": {"attempt": 3, "cluster": "green"}}
FRESH: dict[str, Any] = {"spec": {}}


@pytest.mark.parametrize(
    ("there", "jobs", "name"),
    [
        (None, [], "uid-of-kube-system"),
        (None, [FRESH], "uid-of-kube-system"),
        (None, [FRESH, RAN], "default"),
        (None, [NAMED], "green"),
        (lease(), [], "default"),
        (lease(other="x"), [RAN], "default"),
        (lease(), [FRESH, NAMED], "green"),
        (None, [RAN, NAMED], "green"),
        (lease(**{labels.CLUSTER: "blue"}), [RAN], "blue"),
    ],
    ids=[
        "a new installation",
        "with jobs that never ran",
        "jobs of an older operator, its Lease is lost",
        "the Lease is lost, and the jobs know",
        "an older operator",
        "an older operator, its Lease annotated by somebody",
        "the Lease was lost, and an uninstall has made another",
        "the Lease is lost, and the status of a job was rebuilt",
        "noted before",
    ],
)
def test_a_name_is_found_where_none_is_told(there: Any, jobs: list[dict[str, Any]], name: str) -> None:
    assert found(Objects(there, jobs)) == name


def test_a_name_that_is_told_is_asked_of_nobody() -> None:
    objects = Objects(lease(**{labels.CLUSTER: "blue"}), [])
    assert found(objects, "red") == "red"
    assert objects.asked == []


@pytest.mark.parametrize(
    ("there", "names"),
    [
        (None, ()),
        (lease(), ()),
        (lease(**{labels.CLUSTER: "red"}), ()),
        (lease(**{labels.CLUSTER: "blue"}), ("blue",)),
        (lease(**{labels.CLUSTER: "red", labels.CLUSTERS_BEFORE: "blue"}), ("blue",)),
        (lease(**{labels.CLUSTER: "green", labels.CLUSTERS_BEFORE: "blue,red"}), ("blue", "green")),
    ],
    ids=["new", "older", "the same", "renamed", "renamed and started again", "renamed and back"],
)
def test_names_of_before_are_those_of_the_own_lease(there: Any, names: tuple[str, ...]) -> None:
    objects = Objects(there, [])
    assert asyncio.run(naming_cluster.before(objects, LEASE, "red")) == names  # type: ignore[arg-type]


def test_names_of_before_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)
    objects = Objects(lease(**{labels.CLUSTER: "blue"}), [], away=3)
    assert asyncio.run(naming_cluster.before(objects, LEASE, "red")) == ("blue",)  # type: ignore[arg-type]


def test_an_operator_of_some_namespaces_reads_no_other_one() -> None:
    objects = Objects(None, [])
    assert found(objects, namespaces=("shop", "bank")) == "uid-of-shop"
    assert "namespaces/kube-system" not in objects.asked
    assert [one for one in objects.asked if " of " in one] == [
        "statefulsparkjobs of shop",
        "statefulsparkjobs of bank",
    ]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (Config(cluster="default", cluster_found=True), "green"),
        (Config(cluster="blue", clusters_before=("grey", "green")), "blue"),
        (Config(cluster="blue", clusters_before=("grey",)), "green"),
        (Config(cluster="blue"), "green"),
    ],
    ids=["found", "told, and it was green before", "told, of another operator", "told to a new installation"],
)
def test_a_job_keeps_the_name_that_its_state_lies_under_unless_another_is_told(
    config: Config, name: str
) -> None:
    ran = decisions.job(decisions.running_status(cluster="green", intent={"action": "start", "attempt": 2}))
    seen = observed.Observed(ran, decisions.NOW)
    wanted = decisions.revision()
    begun = decide(seen, {wanted.name: wanted}, wanted, "", config)
    assert begun.status["cluster"] == name
    context = parts.Context(ran, wanted, config)
    purge = tasks.of_job(context, actions.CreateTask("purge", "purge", ("purge",)), "orders-1")
    assert dict(purge.environment)["SPARKSTATE_CLUSTER"] == name
    assert {"name": "SPARKSTATE_CLUSTER", "value": name} in parts.environment(context, 2)
    fresh = decisions.job()
    fresh_env = parts.environment(parts.Context(fresh, wanted, config), 1)
    assert {"name": "SPARKSTATE_CLUSTER", "value": config.cluster} in fresh_env


def test_an_api_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)
    assert found(Objects(lease(), [], away=3)) == "default"
