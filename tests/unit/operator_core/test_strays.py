"""Objects with a job's name that are not the job's: which of them are deleted, and what a failure holds up."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

import pytest
from support.scene import kept_scene
from support.scene.decisions import NOW

from sparkstate_operator import errors, labels, observed
from sparkstate_operator.edges import kube as k
from sparkstate_operator.memories import Key
from sparkstate_operator.observe import Look, Observer
from sparkstate_operator.watching import handlers
from sparkstate_operator.watching.watches import Watches

REFUSED = errors.Refused(403, 'admission webhook "a.b" denied the request: it stays')


def child(name: str, **marks: str) -> observed.Child:
    meta = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    return observed.child_of({"metadata": {**meta, "labels": {labels.JOB: "orders", **marks}}}, "Service")


STRAYS = tuple((k.SERVICES, child(name, **{labels.JOB_UID: "uid-0"})) for name in ("first", "second"))


class Namespace:
    """Services of a job, of an earlier one, and of somebody who has read of the label of jobs."""

    async def list(self, kind: k.Kind, _namespace: str, _selector: str) -> list[dict[str, Any]]:
        found = (
            child("mine", **{labels.JOB_UID: "uid-1"}),
            child("earlier", **{labels.JOB_UID: "uid-0"}),
            child("without"),
            child("empty", **{labels.JOB_UID: ""}),
        )
        return [dict(one.body) for one in found] if kind is k.SERVICES else []


@pytest.mark.parametrize(
    ("uid", "strays"), [("uid-1", ["earlier"]), ("", ["mine", "earlier"])], ids=["a job", "no job"]
)
def test_an_object_without_the_uid_of_a_job_is_nobodys_to_delete(uid: str, strays: list[str]) -> None:
    no: Any = None
    observer = Observer(cast(k.Kube, Namespace()), no, b"", no)
    found = asyncio.run(observer._children("shop", "orders", uid, deep=True, checks=False))
    assert [one.name for _, one in found[1]] == strays


class Scene(kept_scene.Scene):
    """With two strays, of which the first cannot be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[str] = []
        self.world.strays = STRAYS
        self.world.delete_stray = self.delete_stray
        self.hear("1234")
        self.memory.last.deep_s = None

    async def delete_stray(self, _kind: k.Kind, one: observed.Child, _namespace: str) -> None:
        self.tried.append(one.name)
        if one.name == "first":
            raise REFUSED


def test_a_stray_that_cannot_be_deleted_keeps_no_other_and_is_tried_again() -> None:
    scene = Scene()
    for _ in range(2):
        with pytest.raises(errors.Refused):
            scene.step()
    assert scene.tried == ["first", "second"] * 2


def test_a_stray_that_cannot_be_deleted_holds_up_no_deletion() -> None:
    scene = Scene()
    gone = dataclasses.replace(scene.world.job, deleting_at=NOW)
    scene.world.job = dataclasses.replace(gone, spec={**gone.spec, "deletion": {"deadline": "0s"}})
    scene.world.pods = ()
    scene.step()
    scene.step()
    assert scene.tried[:2] == ["first", "second"]
    assert "let_go" in [act for act, _ in scene.world.done]


def test_strays_of_a_job_that_is_gone_are_tried_again() -> None:
    scene = Scene()

    async def look(*_: Any, **__: Any) -> Look:
        return Look(None, {}, STRAYS)

    scene.world.look = look  # type: ignore[method-assign]
    with pytest.raises(errors.Refused):
        scene.step()
    assert scene.tried == ["first", "second"]
    assert len(scene.reconciler.memories) == 0


@pytest.mark.parametrize(
    ("event", "marks", "told"),
    [
        ("pod_event", {labels.JOB: "orders"}, [Key("job", "shop", "orders")]),
        ("pod_event", {labels.JOB: ""}, []),
        ("command_event", {labels.JOB: ""}, []),
        ("command_event", {labels.SNAPSHOT: ""}, []),
        ("command_event", {labels.SNAPSHOT: "", labels.JOB: "orders"}, [Key("job", "shop", "orders")]),
        ("command_event", {labels.SNAPSHOT: "one"}, [Key("snapshot", "shop", "one")]),
    ],
    ids=["pod", "pod of no job", "command of no job", "of no snapshot", "of a job", "of a snapshot"],
)
def test_a_label_without_a_name_is_no_event(event: str, marks: dict[str, str], told: list[Key]) -> None:
    """The request for an object without a name is answered with the list of all of them."""
    heard: list[Key] = []
    seen: list[Key] = []

    def saw_pod(key: Key, _: Any) -> bool:
        seen.append(key)
        return True

    listeners = handlers.Listeners(lambda key, version="": heard.append(key), saw_pod, lambda *_: True)
    found = handlers.registry(listeners, None, Watches([], lambda: 0.0))
    handler: Any = next(one.fn for one in found._watching.get_all_handlers() if one.id.endswith(event))
    asyncio.run(handler(namespace="shop", body={"metadata": {"name": "any", "labels": marks}}))
    assert heard == told
    assert seen == (told if event == "pod_event" else [])
