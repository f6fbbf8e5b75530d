"""``savepoints read``: the entries of a savepoint as lines of JSON, without the job's code."""

from __future__ import annotations

import base64
import enum
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sparkstate import (
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from sparkstate.checkpoint import metadata, operator_parts
from sparkstate.checkpoint.operator_parts import OperatorPart, StoredState
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.cli import main
from sparkstate.functions import AggregateFunction
from sparkstate.handles import FileHandle, ShardHandle, StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.log.lineage import JobName
from sparkstate.testing import KeyedProcessHarness

UID = "op"
SHARDS = 4


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """A state of each kind."""

    NAMED = Types.ROW_NAMED(["name", "tags"], [Types.STRING(), Types.MAP(Types.STRING(), Types.LONG())])

    def initialize_state(self, ctx: Any) -> None:
        self.seen = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def snapshot_state(self, ctx: Any) -> None:
        pass

    def open(self, ctx: Any) -> None:
        lives = ValueStateDescriptor("expiring", Types.LONG())
        lives.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.row = ctx.get_state(ValueStateDescriptor("row", self.NAMED))
        self.colour = ctx.get_state(ValueStateDescriptor("colour", Types.ENUM(Colour)))
        self.anything = ctx.get_state(ValueStateDescriptor("anything", Types.PICKLED_BYTE_ARRAY()))
        self.items = ctx.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.names = ctx.get_map_state(MapStateDescriptor("names", Types.LONG(), Types.STRING()))
        self.sum = ctx.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
        )
        self.mean = ctx.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )
        self.expiring = ctx.get_state(lives)
        self.spaced = ctx.get_state(ValueStateDescriptor("spaced", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen.add(value.k)
        self.total.update(float("nan") if value.v < 0 else value.v / 2)
        self.row.update({"name": value.k, "tags": {"v": value.v}})
        self.colour.update(Colour.BLUE)
        self.anything.update({"set": {value.v}})
        self.items.add_all([value.v, value.v + 1])
        self.names.put(value.v, f"v{value.v}")
        self.sum.add(value.v)
        self.mean.add(value.v)
        self.expiring.update(value.v)
        self.spaced.set_current_namespace((1, 2))
        self.spaced.update(value.v)
        ctx.timer_service().register_event_time_timer(1000 + value.v)
        yield from ()


def savepoint(
    folder: Path,
    backend: str,
    native: bool = False,
    form: str = "",
    function: KeyedProcessFunction | None = None,
    keys: tuple[str, str] = ("a", "b"),
) -> Path:
    """A savepoint of the function after three rows, written as a job's slots write it; ``native``: a checkpoint in
    RocksDB's own files."""
    folder.mkdir()
    shards = []
    with KeyedProcessHarness(
        function or Everything(), key=lambda row: row.k, key_type=Types.STRING(), backend=backend, shards=SHARDS,
        parallelism=2, processing_time=77, uid=UID,
    ) as driven:  # fmt: skip
        for k, v in ((keys[0], 4), (keys[1], -1), (keys[0], 6)):
            driven.process_element({"k": k, "v": v}, 10)
        parts = driven.snapshot().operator_state
        for number, store in driven._stores.items():
            (work := folder.parent / f"work-{number}").mkdir()
            taken = store.prepare_snapshot(1, work, not native)
            files = tuple(
                stored(folder, f"{number}-{file.name}", file.name, file.path.read_bytes())
                for file in taken.files()
            )
            taken.release()
            kind = form or ("rocksdb" if native else "canonical")
            shards.append(ShardHandle(shard=number, format=kind, files=files))
    handles = [stored(folder, f"part-{number}", "part", data) for number, data in enumerate(parts)]
    names = (
        "total",
        "row",
        "colour",
        "anything",
        "items",
        "names",
        "sum",
        "mean",
        "expiring",
        "spaced",
        "seen",
    )
    found = metadata.CheckpointMetadata(
        kind="savepoint", checkpoint_id=1, job=JobName(cluster="local", namespace="default", name="j"),
        lineage="l", incarnation=1, epoch=1, watermark=0, timestamp_ms=0, key_space=KeySpace(128, SHARDS),
        slots=2, backend=backend, operators=(UID,), shards=tuple(shards), operator_state=tuple(handles),
        states=tuple(
            StateMeta(uid=UID, name=name, kind="value", key_type="STRING", namespace_type="", value_type="LONG")
            for name in names
        ),
    )  # fmt: skip
    (folder / "_metadata").write_bytes(metadata.encode(found))
    return folder


def stored(folder: Path, path: str, name: str, data: bytes) -> FileHandle:
    (folder / path).write_bytes(data)
    return FileHandle(name=name, size=len(data), checksum=metadata.checksum(data), path=path)


def entries(capsys: Any, *words: str) -> list[dict[str, Any]]:
    assert main.main(["savepoints", "read", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("backend", "native"), [("hashmap", False), ("rocksdb", False), ("rocksdb", True)])
def test_every_kind_of_state_is_shown_as_the_job_sees_it(
    capsys: Any, tmp_path: Path, backend: str, native: bool
) -> None:
    folder = savepoint(tmp_path / "saved", backend, native)
    found = entries(capsys, str(folder))
    assert {entry["operator"] for entry in found} == {UID}
    of: dict[str, list[dict[str, Any]]] = {}
    for entry in found:
        of.setdefault(entry["state"], []).append(
            {k: v for k, v in entry.items() if k not in ("operator", "state")}
        )
    a, b = {"key": "a"}, {"key": "b"}

    def ordered(name: str) -> list[dict[str, Any]]:
        return sorted(of[name], key=lambda entry: entry.get("key", ""))

    assert ordered("total") == [
        {"kind": "value", **a, "value": 3.0}, {"kind": "value", **b, "value": "NaN"}
    ]  # fmt: skip
    assert ordered("row")[0]["value"] == {"name": "a", "tags": {"v": 6}}
    assert {entry["value"] for entry in of["colour"]} == {"BLUE"}
    assert [(entry["index"], entry["value"]) for entry in ordered("items")] == [
        (0, 4), (1, 5), (2, 6), (3, 7), (0, -1), (1, 0)
    ]  # fmt: skip
    assert sorted((entry["key"], entry["map_key"], entry["value"]) for entry in of["names"]) == [
        ("a", 4, "v4"), ("a", 6, "v6"), ("b", -1, "v-1")
    ]  # fmt: skip
    assert ordered("sum")[0] == {"kind": "reducing", **a, "value": 10}
    assert ordered("mean")[0] == {"kind": "aggregating", **a, "value": [10, 2]}
    assert ordered("expiring")[0] == {"kind": "value", **a, "value": 6, "stamp_ms": 77}
    assert ordered("spaced")[0] == {"kind": "value", **a, "namespace": [1, 2], "value": 6}
    assert [(entry["key"], entry["timestamp"]) for entry in ordered("_timer_state/event_user-timers")] == [
        ("a", 1004), ("a", 1006), ("b", 999)
    ]  # fmt: skip
    assert sorted(entry["value"] for entry in of["seen"]) == ["a", "a", "b"]
    assert {entry["kind"] for entry in of["seen"]} == {"operator list"}


def test_a_pickled_value_is_shown_as_bytes_and_never_read(capsys: Any, tmp_path: Path) -> None:
    folder = savepoint(tmp_path / "saved", "hashmap")
    found = entries(capsys, str(folder), "--state", "anything")
    values = {entry["key"]: base64.b64decode(entry["value"]["pickle"]) for entry in found}
    assert pickle.loads(values["a"]) == {"set": {6}}


def test_the_choice_of_operator_state_and_number(capsys: Any, tmp_path: Path) -> None:
    folder = savepoint(tmp_path / "saved", "hashmap")
    assert {entry["state"] for entry in entries(capsys, str(folder), "--state", "total")} == {"total"}
    assert {entry["state"] for entry in entries(capsys, str(folder), "--operator", UID)} > {"total", "items"}
    assert len(entries(capsys, folder.as_uri(), "--limit", "3")) == 3
    assert main.main(["savepoints", "read", str(folder), "--operator", "other"]) != 0
    assert "no operator of this uid; it has op" in capsys.readouterr().err
    assert main.main(["savepoints", "read", str(folder), "--state", "other"]) != 0
    assert "no state of this name; it has anything, colour" in capsys.readouterr().err


def test_a_kept_union_list_is_not_shown_beside_that_of_a_slot_which_declares_it(
    capsys: Any, tmp_path: Path
) -> None:
    folder = savepoint(tmp_path / "saved", "hashmap")
    values = [Types.STRING().encode(each) for each in ("old", "new")]
    lists = [
        StoredState(
            uid=UID, name="seen", mode="union", value_type="STRING", values=tuple(values[:n]), kept=n == 1
        )
        for n in (1, 2)
    ]
    parts = [OperatorPart(slot=slot, slots=2, states=(each,)) for slot, each in enumerate(lists)]
    found = metadata.decode((folder / "_metadata").read_bytes(), "_metadata")
    handles = [stored(folder, f"union-{part.slot}", "part", operator_parts.encode(part)) for part in parts]
    changed = msgspec.structs.replace(found, operator_state=tuple(handles))
    (folder / "_metadata").write_bytes(metadata.encode(changed))
    shown = entries(capsys, str(folder), "--state", "seen")
    assert [(entry["slot"], entry["value"]) for entry in shown] == [(1, "old"), (1, "new")]


def test_files_of_another_backend_are_refused_with_the_remedy(capsys: Any, tmp_path: Path) -> None:
    folder = savepoint(tmp_path / "saved", "hashmap", form="mine")
    assert main.main(["savepoints", "read", str(folder)]) != 0
    assert "take a canonical savepoint" in capsys.readouterr().err


def test_damage_is_told_and_not_shown(capsys: Any, tmp_path: Path) -> None:
    folder = savepoint(tmp_path / "saved", "hashmap")
    (path,) = folder.glob("1-*")
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    assert main.main(["savepoints", "read", str(folder)]) == 5
    assert "has the checksum" in capsys.readouterr().err


def test_a_folder_without_a_snapshot_is_told(capsys: Any, tmp_path: Path) -> None:
    assert main.main(["savepoints", "read", str(tmp_path)]) == 5
    assert "name the folder that holds _metadata" in capsys.readouterr().err


class Halves(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.total.update(value.v)


def test_a_key_with_half_of_a_character_is_escaped(capsys: Any, tmp_path: Path) -> None:
    folder = savepoint(tmp_path / "saved", "hashmap", function=Halves(), keys=("\ud800", "é"))
    assert {entry["key"]: entry["value"] for entry in entries(capsys, str(folder))} == {"\ud800": 6, "é": -1}


@pytest.mark.parametrize("native", [False, True])
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, native: bool) -> None:
    folder = savepoint(tmp_path / "saved", "rocksdb", native)
    command = [sys.executable, "-m", "sparkstate.cli.main", "savepoints", "read", str(folder)]
    work = tmp_path / "work"
    work.mkdir()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(work)},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)
    assert not list(work.iterdir())
