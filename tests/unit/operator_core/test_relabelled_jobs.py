"""Jobs that an operator holds and that its watches do not show: their class, or its own, was changed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from sparkstate_operator import errors, labels
from sparkstate_operator.edges import kube as k
from sparkstate_operator.managing import Manager
from sparkstate_operator.reconcile import Key
from sparkstate_operator.watching import relabelled_jobs


class Jobs:
    """Jobs by namespace, as the API server lists them. ``away``: so many requests are refused, by namespace."""

    def __init__(self, jobs: list[dict[str, Any]], away: dict[str | None, int] | None = None) -> None:
        self._jobs, self._away = jobs, away or {}
        self.asked: list[tuple[str | None, str, bool]] = []

    async def each(
        self, kind: k.Kind, namespace: str | None, selector: str, *, meta: bool
    ) -> AsyncIterator[dict[str, Any]]:
        assert kind is k.JOBS
        self.asked.append((namespace, selector, meta))
        if self._away.get(namespace, 0):
            self._away[namespace] -= 1
            raise errors.Forbidden(403, "no")
        for one in self._jobs:
            if namespace in (None, one["metadata"]["namespace"]):
                yield one


def held(
    name: str, mark: str, *, namespace: str = "shop", finalizer: str = labels.FINALIZER
) -> dict[str, Any]:
    notes = {labels.MANAGER: mark} if mark else {}
    meta = {"name": name, "namespace": namespace, "finalizers": [finalizer], "annotations": notes}
    return {"metadata": meta}


def found(jobs: Jobs, own: Manager, *namespaces: str) -> list[Key]:
    seen: list[Key] = []
    asyncio.run(relabelled_jobs.find(cast(k.Kube, jobs), own, namespaces, seen.append))
    return seen


@pytest.mark.parametrize(
    ("own", "selector"),
    [
        (Manager("ops", "ours", "blue"), "sparkstate.io/operator-class!=blue"),
        (Manager("ops", "ours"), "sparkstate.io/operator-class"),
    ],
    ids=["of a class", "of none"],
)
def test_what_it_holds_of_other_classes_is_found_by_its_mark_of_whatever_class(
    own: Manager, selector: str
) -> None:
    jobs = Jobs(
        [
            held("a", "ops/ours"),
            held("b", "ops/ours@green"),
            held("c", "ops/theirs"),
            held("d", ""),
            held("e", "ops/ours", finalizer="example.org/theirs"),
            {"metadata": {"name": "f", "namespace": "shop"}},
        ]
    )
    assert found(jobs, own) == [Key("job", "shop", "a"), Key("job", "shop", "b")]
    assert jobs.asked == [(None, selector, True)]


def test_a_namespace_that_cannot_be_read_is_tried_again_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relabelled_jobs, "AGAIN_S", 0.01)
    jobs = Jobs([held("a", "ops/ours"), held("b", "ops/ours", namespace="bank")], {"shop": 2})
    assert [one.name for one in found(jobs, Manager("ops", "ours", "blue"), "shop", "bank")] == ["b", "a"]
