"""What an uninstall does where it may not read or take everything; against objects that live in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from click.testing import CliRunner

from sparkstate_operator import cli, errors, labels, managing, release
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import LeaseSettings

OWN = managing.Manager("ops", "ours", "")
FORBIDDEN = errors.Forbidden(403, "cannot list resource")


class Objects:
    """A job and a snapshot in each namespace. ``refused``: what the API server says to a list, by namespace."""

    def __init__(self, *namespaces: str, refused: dict[str | None, errors.ApiError] | None = None) -> None:
        self._namespaces, self._refused = namespaces, refused or {}
        self.let_go: list[tuple[str, str]] = []

    async def each(self, kind: k.Kind, namespace: str | None, *, meta: bool) -> AsyncIterator[dict[str, Any]]:
        assert meta
        if namespace in self._refused:
            raise self._refused[namespace]
        for one in self._namespaces:
            if namespace in (None, one):
                name = {"name": "orders", "namespace": one, "resourceVersion": "1"}
                yield {"metadata": {**name, "finalizers": [labels.FINALIZER]}}

    async def merge(self, kind: k.Kind, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        assert body["metadata"]["finalizers"] == []
        self.let_go.append((kind.plural, namespace))
        return body


def let_go(objects: Objects, *namespaces: str) -> int:
    return asyncio.run(release._let_go(cast(k.Kube, objects), namespaces, OWN))


@pytest.mark.parametrize(
    "error",
    [FORBIDDEN, errors.NotFound(404, "no such resource"), errors.ApiError(500, "etcd has no leader")],
    ids=["forbidden", "not found", "an error of the server"],
)
def test_a_namespace_that_cannot_be_read_keeps_no_other_from_being_let_go(
    error: errors.ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    objects = Objects("bank", "shop", refused={"bank": error})
    with pytest.raises(errors.ApiError) as caught:
        let_go(objects, "bank", "shop")
    assert objects.let_go == [("statesnapshots", "shop"), ("statefulsparkjobs", "shop")]
    said = str(caught.value)
    assert "statesnapshots of namespace bank, statefulsparkjobs of namespace bank could not be read" in said
    assert "2 objects were let go" in said
    assert ("files/rules.yaml" in caplog.text) == (error is FORBIDDEN)


def test_all_namespaces_that_cannot_be_read_are_an_error_too() -> None:
    with pytest.raises(errors.ApiError, match="statesnapshots of all namespaces"):
        let_go(Objects(refused={None: FORBIDDEN}))


def test_nothing_is_missed_where_everything_can_be_read() -> None:
    assert let_go(Objects("bank", "shop"), "bank", "shop") == 4
    assert let_go(Objects("bank", "shop")) == 4


class Leases:
    """Leases that nobody may read."""

    async def get(self, kind: k.Kind, namespace: str, name: str) -> None:
        raise errors.Forbidden(403, 'cannot get resource "leases"')

    async def close(self) -> None:
        return None


@pytest.fixture
def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: Any, **__: Any) -> Leases:
        return Leases()

    monkeypatch.setattr(k.Kube, "connect", connect)


@pytest.mark.usefixtures("_refused")
def test_a_lease_that_may_not_be_taken_ends_the_command_at_once_and_names_the_right() -> None:
    async def once() -> None:
        async with asyncio.timeout(2):
            await release.release(LeaseSettings("ops", "ours", "me"), ())

    with pytest.raises(errors.Forbidden) as caught:
        asyncio.run(once())
    for part in ('cannot get resource "leases"', "namespace ops", "`lease`", "files/rules.yaml"):
        assert part in str(caught.value)


@pytest.mark.usefixtures("_refused")
def test_the_command_says_what_failed_in_one_line_and_fails() -> None:
    done = CliRunner().invoke(cli.main, ["release", "--lease-namespace", "ops"])
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].startswith("Error: the Lease cannot be reached")
