"""A quota that refuses a pod is read for its scopes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sparkstate_operator import errors
from sparkstate_operator.core.quota import Scope
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges import quotas

FULL = 'pods "a" is forbidden: exceeded quota: ours, requested: pods=1, used: pods=1, limited: pods=1 (403)'
OURS = {"spec": {"hard": {"pods": "1"}, "scopes": ["NotTerminating"]}}


class Quotas:
    """The quotas of a namespace; ``fails``: the answer to whoever reads one."""

    def __init__(self, fails: errors.ApiError | None = None, **found: dict[str, Any]) -> None:
        self._found, self._fails = found, fails
        self.read: list[str] = []

    async def get(self, kind: k.Kind, namespace: str, name: str) -> dict[str, Any] | None:
        self.read.append(f"{kind.plural} {namespace}/{name}")
        if self._fails is not None:
            raise self._fails
        return self._found.get(name)


def scopes(found: Quotas, refusal: str = FULL) -> tuple[Scope, ...]:
    return asyncio.run(quotas.scopes(cast(k.Kube, found), "shop", refusal))


def test_the_quota_that_the_refusal_names_is_read() -> None:
    found = Quotas(ours=OURS)
    assert scopes(found) == (Scope("NotTerminating"),)
    assert found.read == ["resourcequotas shop/ours"]


def test_a_refusal_by_anything_else_reads_none() -> None:
    found = Quotas(ours=OURS)
    assert scopes(found, "serviceaccount mine not found") == ()
    assert found.read == []


def test_a_quota_that_is_gone_has_no_scopes() -> None:
    assert scopes(Quotas()) == ()


def test_without_the_right_to_read_it_a_quota_counts_all_pods() -> None:
    assert scopes(Quotas(fails=errors.Forbidden(403, "cannot get resource"))) == ()


def test_a_server_that_fails_tells_nothing_about_a_quota() -> None:
    with pytest.raises(errors.ApiError):
        scopes(Quotas(fails=errors.ApiError(503, "not ready")))
