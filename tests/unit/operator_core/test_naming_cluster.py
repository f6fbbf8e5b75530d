"""What an operator calls its cluster in storage, by what it finds there; against objects that live in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sparkstate_operator import errors, labels, naming_cluster
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import LeaseSettings

LEASE = LeaseSettings("ops", "sparkstate-operator", "me", 15)


class Objects:
    """A few objects, by kind and name. ``away``: so many requests are not answered."""

    def __init__(
        self,
        lease: dict[str, Any] | None,
        jobs: list[dict[str, Any]],
        away: int = 0,
        refusal: errors.ApiError | None = None,
    ) -> None:
        self._lease, self._jobs, self._away = lease, jobs, away
        self._refusal = refusal or errors.ApiError(0, "no answer")
        self.asked: list[str] = []

    async def get(self, kind: k.Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        self.asked.append(f"{kind.plural}/{name}")
        if self._away:
            self._away -= 1
            raise self._refusal
        if kind is k.LEASES:
            assert (namespace, name) == ("ops", "sparkstate-operator")
            return self._lease
        return {"metadata": {"uid": f"uid-of-{name}"}}

    async def each(self, kind: k.Kind, namespace: str | None) -> AsyncIterator[dict[str, Any]]:
        self.asked.append(f"{kind.plural} of {namespace}")
        for job in self._jobs:
            yield job


def lease(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "sparkstate-operator", **({"annotations": annotations} if annotations else {})}
    }


def found(
    objects: Objects, cluster: str = "", namespaces: tuple[str, ...] = (), told: list[str] | None = None
) -> str:
    config, tell = Config(cluster=cluster, namespaces=namespaces), (told if told is not None else []).append
    return asyncio.run(naming_cluster.find(objects, config, LEASE, tell))  # type: ignore[arg-type]


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


def identity(objects: Objects, namespaces: tuple[str, ...] = ()) -> str:
    return asyncio.run(naming_cluster.identity(objects, Config(namespaces=namespaces)))  # type: ignore[arg-type]


def test_a_cluster_is_told_from_others_by_kube_system_where_that_may_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)
    assert identity(Objects(None, [], away=3)) == "uid-of-kube-system"
    assert identity(Objects(None, [], away=1, refusal=errors.Forbidden(403, "no"))) == ""
    limited = Objects(None, [])
    assert identity(limited, ("shop",)) == ""
    assert limited.asked == []


def test_an_operator_of_some_namespaces_reads_no_other_one() -> None:
    objects = Objects(None, [])
    assert found(objects, namespaces=("shop", "bank")) == "uid-of-shop"
    assert "namespaces/kube-system" not in objects.asked
    assert [one for one in objects.asked if " of " in one] == [
        "statefulsparkjobs of shop",
        "statefulsparkjobs of bank",
    ]


def test_an_api_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)
    assert found(Objects(lease(), [], away=3)) == "default"


def test_a_right_that_is_missing_is_told_with_its_remedy_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)
    told: list[str] = []
    refusal = errors.Forbidden(403, 'cannot get resource "leases"')
    assert found(Objects(lease(), [], away=2, refusal=refusal), told=told) == "default"
    assert told == [told[0], told[0], ""]
    for part in ('cannot get resource "leases"', "`lease`", "`jobs`", "files/rules.yaml"):
        assert part in told[0]


def test_an_api_server_that_is_away_tells_nothing_of_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming_cluster, "RETRY_S", 0.01)
    told: list[str] = []
    assert found(Objects(lease(), [], away=2), told=told) == "default"
    assert told == [""]
