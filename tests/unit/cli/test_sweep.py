"""What the sweep of savepoints takes and what it never takes, on a folder and on a real S3 server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.programs import Program, manifest_of
from support.storage import stored_job

ITEM = {"kind": "StatefulSparkJob", "metadata": {"name": "orders"}, "spec": {}}


class Swept:
    """A job with two savepoints of its own besides the newest, and the command that sweeps it."""

    def __init__(self, program: Program, place: str, folder: Path) -> None:
        self.job = stored_job.StoredJob(place, "orders", attempt=1)
        self.old, self.other = self.job.take_savepoint("a", 5), self.job.take_savepoint("b", 6)
        self.newest = self.job.take_savepoint("c", 7)
        self._program, self._folder, self.place = program, folder, place

    def __call__(self, *words: str, items: list[Any] | None = None) -> dict[str, Any]:
        path = self._folder / "objects.json"
        path.write_text(json.dumps({"items": [ITEM] if items is None else items}))
        manifest = manifest_of(self._folder, self.place)
        told = ("--manifest", manifest, "--objects", str(path), "--older-than", "0s")
        return self._program("savepoints", "sweep", *told, *words)

    def orphans(self, *words: str, items: list[Any] | None = None) -> list[str]:
        return [one["url"] for one in self(*words, items=items)["orphans"]]

    def there(self, url: str) -> bool:
        return bool(self._program("savepoints", "verify", url)["ok"])


@pytest.fixture
def swept(program: Program, place: str, tmp_path: Path) -> Swept:
    return Swept(program, place, tmp_path)


def snapshot(**fields: Any) -> dict[str, Any]:
    return {"kind": "StateSnapshot", "metadata": {"name": "one"}, **fields}


def test_a_sweep_only_tells_unless_it_is_told_to_delete(swept: Swept) -> None:
    assert set(swept.orphans()) == {swept.old, swept.other}
    assert set(swept.orphans("--dry-run")) == {swept.old, swept.other}
    assert swept.there(swept.old)
    assert swept("--delete")["size_bytes"] > 0
    assert not swept.there(swept.old)
    assert swept.there(swept.newest), "the job restores from it"
    assert swept.orphans() == []


@pytest.mark.parametrize(
    "item",
    [
        lambda url: snapshot(status={"uri": url}, spec={"pinned": True}),
        lambda url: snapshot(spec={"uri": f"{url}/_metadata"}),
        lambda _url: snapshot(status={"triggerId": "a"}),
        lambda url: {"kind": "StatefulSparkJob", "spec": {"restoreFrom": {"uri": url}}},
        lambda url: {"kind": "StatefulSparkJob", "status": {"start": {"uri": url}}},
        lambda url: {"kind": "StatefulSparkJob", "status": {"lastSavepoint": {"uri": url}}},
        lambda url: {"kind": "StatefulSparkJob", "spec": {"restoreFrom": {"uri": f"{url}?v=2"}}},
    ],
    ids=[
        "a pinned snapshot",
        "a registered one",
        "one in flight",
        "a spec",
        "a start",
        "a last savepoint",
        "an old URL",
    ],
)
def test_what_an_object_names_stays(swept: Swept, item: Any) -> None:
    found = swept("--delete", items=[item(swept.old)])
    assert [one["url"] for one in found["orphans"]] == [swept.other]
    assert {one["url"]: one["why"] for one in found["spared"]}[swept.old] == "an object names it"
    assert swept.there(swept.old)


OTHERS = [
    {"kind": "StatefulSparkJob", "metadata": {"name": "other"}},
    {"kind": "StatefulSparkJob", "metadata": {"name": "orders", "namespace": "elsewhere"}},
    {"kind": "StatefulSparkJob", "metadata": {"name": "orders"}, "status": {"cluster": "green"}},
    {"kind": "StateSnapshot", "metadata": {"name": "orders"}, "status": {"triggerId": "of-another"}},
]


def test_a_list_that_does_not_know_the_job_deletes_nothing_unless_the_job_is_said_to_be_gone(
    swept: Swept,
) -> None:
    refused = swept("--delete", items=OTHERS)
    assert (refused["ok"], refused["reason"]) == (False, "SpecInvalid")
    assert "--job-is-gone" in refused["message"]
    assert set(swept.orphans(items=OTHERS)) == {swept.old, swept.other}
    assert swept.there(swept.old)
    assert swept.there(swept.other)
    swept("--delete", "--job-is-gone", items=OTHERS)
    assert not swept.there(swept.old)


def test_what_is_young_stays(swept: Swept) -> None:
    assert swept.orphans("--older-than", "1h") == []


@pytest.mark.parametrize("ending", ["", "/_metadata"])
def test_what_another_job_began_from_stays_until_it_has_state_of_its_own(
    swept: Swept, place: str, ending: str
) -> None:
    heir = stored_job.StoredJob(place, "heir", attempt=1, restored_from=swept.old + ending)
    assert swept.orphans() == [swept.other]
    heir.take_savepoint("x", 1)
    assert set(swept.orphans()) == {swept.old, swept.other}


def test_a_job_of_the_same_name_in_another_cluster_keeps_its_savepoints(swept: Swept, place: str) -> None:
    theirs = stored_job.StoredJob(place, "orders", attempt=1, cluster="green")
    old, _newest = theirs.take_savepoint("a", 5), theirs.take_savepoint("b", 6)
    swept("--delete")
    assert swept.there(old)


def test_what_a_driver_is_writing_stays_and_what_an_older_one_left_goes(swept: Swept, place: str) -> None:
    begun = swept.job.begin_savepoint("d")
    assert begun not in swept.orphans()
    swept.job.begin_incarnation()
    (left,) = (one for one in swept()["orphans"] if one["url"] == begun)
    assert left["complete"] is False
    swept("--delete")
    assert begun not in swept.orphans()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"items": []}', '{"items": [{"kind": "Pod"}]}', '{"kind": "StateSnapshot"}'],
    ids=["nothing", "cut", "a list", "no objects", "others", "one object"],
)
def test_without_a_list_of_objects_nothing_is_swept(
    program: Program, place: str, tmp_path: Path, text: str
) -> None:
    stored_job.StoredJob(place, "orders", attempt=1)
    path = tmp_path / "objects.json"
    path.write_text(text)
    manifest = manifest_of(tmp_path, place)
    answer = program("savepoints", "sweep", "--manifest", manifest, "--objects", str(path), "--delete")
    assert (program.code, answer["ok"], answer["reason"]) == (2, False, "SpecInvalid")
    assert "kubectl get ssj,snap -A -o json" in answer["message"] or "no object at all" in answer["message"]
