"""The keys of an attempt: derived alike on both sides, one for each door, and each container has its own."""

from __future__ import annotations

import base64
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from support.scene import in_cluster

from sparkstate import keys as engine
from sparkstate_operator.core import keys as operator
from sparkstate_operator.objects import children, driver, executor

OWN = b"an operator's own key, 32 bytes."
UID = "0f9c5a86-4b7e-4b4e-9f8d-0c1d2e3f4a5b"
TOKEN = "a-token-of-a-runner-0123456789abcdef"
PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
VECTORS = dict(re.findall(r"\| `((?:operator|engine): [a-z]+)` \| `([0-9a-z-]+)` \|", PAGE))


def test_both_sides_derive_what_the_page_says() -> None:
    found = {f"operator: {name}": key for name, key in _all(operator.of_attempt(OWN, UID, 3)).items()}
    own = engine.of_token(TOKEN)
    found |= {f"engine: {use}": getattr(own, use) for use in ("admin", "read", "slots")}
    assert found == VECTORS


@pytest.mark.parametrize("use", ["admin", "read", "slots", "spark"])
def test_both_sides_derive_alike(use: str) -> None:
    assert engine.derive("a secret", use) == operator.derive("a secret", use)


def test_no_key_is_another_and_no_attempt_or_job_has_those_of_another() -> None:
    several = [
        *(operator.of_attempt(OWN, UID, attempt) for attempt in (1, 2, 11)),
        operator.of_attempt(OWN, UID[:-1] + "c", 1),
        operator.of_attempt(OWN + b"2", UID, 1),
    ]
    all_keys = [key for one in several for key in _all(one).values()]
    assert len(set(all_keys)) == len(all_keys) == 25


class NotMounted(Exception):
    """The kubelet does not start the containers, and tries the volume again; a running pod keeps the files it has."""


def files(secret: dict[str, Any] | None, pod: dict[str, Any]) -> dict[str, str]:
    """What a pod's containers find, by name, as the kubelet makes it of a Secret; None: it knows of none."""
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == "token")
    found: dict[str, str] = {}
    for source in volume["projected"]["sources"]:
        wanted = source["secret"]
        assert secret is None or wanted["name"] == secret["metadata"]["name"]
        data = secret["data"] if secret is not None else {}
        for item in wanted["items"]:
            if item["key"] in data:
                found[item["path"]] = base64.b64decode(data[item["key"]]).decode()
            elif not wanted.get("optional"):
                raise NotMounted(item["key"])
    return found


@pytest.mark.parametrize("build", [driver.pod, executor.template], ids=["driver", "executor"])
def test_no_container_starts_without_a_key_and_a_deleted_secret_takes_none_away(build: Any) -> None:
    pod = build(in_cluster.context(), 3)
    with pytest.raises(NotMounted, match="token"):
        files(None, pod)


@pytest.mark.parametrize("build", [driver.pod, executor.template], ids=["driver", "executor"])
def test_a_secret_that_an_earlier_operator_made_is_enough(build: Any) -> None:
    context = in_cluster.context()
    secret = children.secret(context, 3, OWN)
    older = {**secret, "data": {"token": secret["data"]["token"]}}
    token = operator.of_attempt(OWN, context.job.uid, 3).token
    assert files(older, build(context, 3)) == {"token": token}


def test_the_driver_opens_what_the_operator_asks_with_and_an_executor_is_given_none_of_it(
    tmp_path: Path,
) -> None:
    context = in_cluster.context()
    secret = children.secret(context, 3, OWN)
    asked = operator.of_attempt(OWN, context.job.uid, 3)
    of_driver = files(secret, driver.pod(context, 3))
    of_executor = files(secret, executor.template(context, 3))
    for name, key in of_driver.items():
        (tmp_path / name).write_text(key)
    held = engine.load(tmp_path / "token")
    assert (held.admin, held.read, held.slots) == (asked.admin, asked.read, asked.slots)
    assert held.token is None, "the token for older images opens nothing here"
    assert asked.token not in (held.admin, held.read, held.slots)
    assert of_executor == {"slots": asked.slots, "spark": asked.spark, "token": asked.token}
    assert not {asked.admin, asked.read} & set(of_executor.values())


def test_a_task_finds_the_key_in_its_pod_and_so_does_spark(tmp_path: Path) -> None:
    context = in_cluster.context()
    secret = children.secret(context, 3, OWN)
    for name, key in files(secret, executor.template(context, 3)).items():
        (tmp_path / name).write_text(key)
    assert engine.for_task("", tmp_path) == operator.of_attempt(OWN, context.job.uid, 3).slots
    assert engine.for_task("told", tmp_path) == "told"
    assert engine.secret_of_spark(tmp_path) == str(tmp_path / "spark")


def test_an_operator_of_an_earlier_version_gives_a_token_alone_from_which_the_rest_follows(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    held = engine.load(tmp_path / "token")
    assert held == engine.of_token(TOKEN)
    assert (held.token, held.in_files) == (TOKEN, False)
    assert engine.secret_of_spark(tmp_path) == str(tmp_path / "token")


def test_no_key_is_printed() -> None:
    for held in (engine.of_token(TOKEN), operator.of_attempt(OWN, UID, 1)):
        assert not any(key in repr(held) for key in _all(held).values() if isinstance(key, str))


def test_whoever_holds_a_key_can_make_only_lesser_ones_of_it() -> None:
    own = engine.of_token(TOKEN)
    assert (engine.as_admin(TOKEN), engine.as_read(TOKEN)) == (own.admin, own.read)
    assert (engine.as_admin(own.admin), engine.as_read(own.admin)) == (own.admin, own.read)
    assert (engine.as_admin(own.read), engine.as_read(own.read)) == (own.read, own.read)


@pytest.mark.parametrize("token", ["admin-of-the-orders", "read-by-nobody-0123456789", "admin-" + "0" * 63])
def test_a_token_of_somebodys_own_may_begin_like_a_key(token: str) -> None:
    own = engine.of_token(token)
    assert (engine.as_admin(token), engine.as_read(token)) == (own.admin, own.read)


def _all(held: Any) -> dict[str, str]:
    return {field.name: getattr(held, field.name) for field in dataclasses.fields(held)}
