"""The operator's own key, where the API server refuses or does not answer; against a Secret that lives in memory."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
import yaml
from support.repository import tree

from sparkstate_operator import errors, keys, rbac
from sparkstate_operator.edges import kube as k

KEY = "k" * 32


class Secrets:
    """One Secret. ``answers``: errors that the first requests get."""

    def __init__(self, *answers: errors.ApiError) -> None:
        self._answers = list(answers)
        self._found: dict[str, Any] | None = None

    async def get(self, kind: k.Kind, namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind, namespace, name) == (k.SECRETS, "ops", "the-key")
        self._answer()
        return self._found

    async def create(self, kind: k.Kind, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        assert (kind, namespace, body["metadata"]["name"]) == (k.SECRETS, "ops", "the-key")
        self._answer()
        self._found = body
        return body

    def hold(self, value: bytes) -> None:
        self._found = {"data": {"key": base64.b64encode(value).decode()}}

    def _answer(self) -> None:
        if self._answers:
            raise self._answers.pop(0)


def waited(secrets: Secrets) -> tuple[bytes, list[str]]:
    """The key, and what was told meanwhile."""
    told: list[str] = []
    found = asyncio.run(keys.wait(secrets, "ops", "the-key", lambda: KEY, told.append))  # type: ignore[arg-type]
    return found, told


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "RETRY_S", 0.01)


def test_a_right_that_is_missing_is_named_with_its_remedy_and_waited_for() -> None:
    refused = errors.Forbidden(403, 'cannot get resource "secrets"')
    key, told = waited(Secrets(refused, refused))
    assert key == KEY.encode()
    assert told == [told[0], told[0], ""]
    for part in ("cannot get", "namespace ops", "Secret the-key", "files/rules.yaml", "existingSecret"):
        assert part in told[0]


@pytest.mark.parametrize(
    "error",
    [
        errors.ApiError(500, "etcd has no leader"),
        errors.ApiError(0, "no answer"),
        errors.Refused(429, "later"),
    ],
    ids=["500", "no answer", "too many requests"],
)
def test_an_api_server_that_is_away_is_waited_for(error: errors.ApiError) -> None:
    key, told = waited(Secrets(error))
    assert key == KEY.encode()
    assert str(error) in told[0]
    assert "existingSecret" not in told[0]


def test_a_key_that_is_none_is_not_waited_for() -> None:
    secrets = Secrets()
    secrets.hold(b"short")
    with pytest.raises(errors.BadKey, match="5 bytes"):
        waited(secrets)


def test_the_rights_for_it_are_listed_for_people_who_grant_rights_themselves() -> None:
    text = (tree.ROOT / "charts" / "sparkstate-operator" / "files" / "rules.yaml").read_text()
    assert yaml.safe_load(text)["key"] == rbac.key_rules()
    verbs = {verb: rule.get("resourceNames") for rule in rbac.key_rules() for verb in rule["verbs"]}
    assert verbs == {"get": [rbac.KEY_SECRET], "create": None}
