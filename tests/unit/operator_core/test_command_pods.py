"""Which pod and which last word count for an engine command."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sparkstate_operator import command_pods, labels, observed
from sparkstate_operator.decide import commanding

NAME = "orders-aabbcc-purge-0"


def try_of(uid: str) -> observed.Child:
    meta = {"name": NAME, "uid": uid, "resourceVersion": "1", "annotations": {labels.COMMAND: "purge"}}
    return observed.child_of({"metadata": meta}, "Job")


def pod(
    name: str, uid: str, *, phase: str = "Running", created: int = 0, leaves: bool = False, word: Any = None
) -> observed.Child:
    """One of the try with that uid."""
    meta = {
        "name": name,
        "uid": f"pod-{name}",
        "resourceVersion": "1",
        "labels": {labels.ROLE: "command"},
        "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
        "ownerReferences": [{"kind": "Job", "name": NAME, "uid": uid}],
        **({"deletionTimestamp": "2026-01-01T00:01:00Z"} if leaves else {}),
    }
    state = {"terminated": {"exitCode": 1, "message": json.dumps(word)}} if word else {"running": {}}
    status = {
        "phase": phase,
        "podIP": "10.0.0.7",
        "containerStatuses": [{"name": "command", "state": state}],
    }
    return observed.child_of({"metadata": meta, "spec": {"nodeName": "node-1"}, "status": status}, "Pod")


def seen(*pods: observed.Child) -> observed.Command:
    (found,) = command_pods.commands([try_of("second")], pods)
    return found


def test_pods_of_the_try_before_count_for_nothing_though_the_names_are_the_same() -> None:
    found = seen(
        pod("a", "first", leaves=True),
        pod("b", "first", phase="Failed", word={"ok": False, "message": "no such bucket"}),
    )
    assert (found.pod, found.had_pod, found.result) == (None, False, {})


def test_of_two_pods_of_a_try_the_newest_counts_that_stays() -> None:
    every = [
        pod("a", "second", created=5),
        pod("b", "second", created=9, leaves=True),
        pod("c", "second", created=2),
    ]
    for order in (every, every[::-1]):
        found = seen(*order)
        assert found.pod is not None
        assert found.pod.name == "a"
    last = seen(*every[1:2]).pod
    assert last is not None and last.name == "b", "one that ends may still say how far it is"


@pytest.mark.parametrize(
    ("code", "ok", "is_done"), [(0, True, True), (1, False, False), (0, False, False)], ids=str
)
def test_a_command_beside_a_container_that_runs_on_is_done_by_its_own_word(
    code: int, ok: bool, is_done: bool
) -> None:
    """A service mesh may put one into each pod. The Job is then never complete, and was cut off at its limit."""
    made = pod("a", "second").body
    ended = {"exitCode": code, "message": json.dumps({"ok": ok}), "finishedAt": "2026-01-01T00:00:30Z"}
    status = {
        **made["status"],
        "containerStatuses": [
            {"name": "command", "state": {"terminated": ended}},
            {"name": "istio-proxy", "state": {"running": {}}},
        ],
    }
    body = {**made, "spec": {**made["spec"], "restartPolicy": "Never"}, "status": status}
    found = seen(observed.child_of(body, "Pod"))
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert (found.succeeded, found.failed) == (is_done, False)
    assert (commanding.stage(found, now, now) is commanding.Stage.DONE) == is_done
    assert (found.ended_at is not None) == is_done


def test_a_pod_that_has_ended_leaves_its_word_alone() -> None:
    found = seen(pod("a", "second", phase="Failed", word={"ok": False, "message": "no such bucket"}))
    assert (found.pod, found.had_pod, found.result["message"]) == (None, True, "no such bucket")
