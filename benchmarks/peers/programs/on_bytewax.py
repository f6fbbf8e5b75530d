"""Bytewax on two processes, as ``python -m bytewax.testing`` starts them, with recovery to SQLite.

Called with words it makes the recovery store and becomes Bytewax; imported by Bytewax it is the dataflow. Bytewax has
keys of text, and only state in memory. It has no generator of its own, so the rows come from Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

TASK = "PEER_TASK"
"""Environment variable that carries the words to the processes of Bytewax."""
BATCH = 1000


def rows(load: str, keys: int, numbers: range) -> Iterator[tuple[str, int]]:
    """The rows of these numbers, as in ``loads.py``."""
    if load == "sum":
        return ((str(i * 2654435761 % 4294967296 % keys), i % 100 + 1) for i in numbers)
    if load == "distinct":
        return ((str(i * 2654435761), i % 100 + 1) for i in numbers)
    raise ValueError(f"load is {load}; Bytewax runs sum and distinct")


class Part(StatelessSourcePartition[tuple[str, int]]):
    """Every ``step``-th row."""

    def __init__(self, task: dict[str, str], first: int, step: int) -> None:
        self._rows = rows(task["load"], int(task["keys"]), range(first, int(task["rows"]), step))

    def next_batch(self) -> list[tuple[str, int]]:
        batch = [row for _, row in zip(range(BATCH), self._rows, strict=False)]
        if not batch:
            raise StopIteration
        return batch


class Numbers(DynamicSource[tuple[str, int]]):
    """All rows, spread over the workers."""

    def __init__(self, task: dict[str, str]) -> None:
        self._task = task

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
        return Part(self._task, worker_index, worker_count)


class Writer(StatelessSinkPartition[tuple[str, int]]):
    """Drops the answers, or writes them to a file of the worker's own."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("w") if path else None

    def write_batch(self, items: list[tuple[str, int]]) -> None:
        if self._file:
            self._file.writelines(f"{key},{total}\n" for key, total in items)

    def close(self) -> None:
        if self._file:
            self._file.close()


class Answers(DynamicSink[tuple[str, int]]):
    """One writer a worker."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Writer:
        return Writer(Path(self._folder, f"{worker_index}.csv") if self._folder else None)


def add(total: int | None, value: int) -> tuple[int, int]:
    """The new state, and the answer."""
    total = (total or 0) + value
    return total, total


def dataflow(task: dict[str, str]) -> Dataflow:
    """Source, running sum, sink."""
    made = Dataflow("peer")
    given = op.input("rows", made, Numbers(task))
    op.output("answers", op.stateful_map("sum", given, add), Answers(task.get("answers")))
    return made


def become_bytewax(task: dict[str, str]) -> None:
    """Never returns."""
    store = Path(task["scratch"], "recovery")
    store.mkdir()
    subprocess.run([sys.executable, "-m", "bytewax.recovery", str(store), task["slots"]], check=True)
    if "answers" in task:
        Path(task["answers"]).mkdir()
    os.environ[TASK] = json.dumps(task)
    command = [
        "-m",
        "bytewax.testing",
        "-p",
        task["slots"],
        "-r",
        str(store),
        "-s",
        task["checkpoint_s"],
        "-b",
        "0",
    ]
    os.execv(sys.executable, [sys.executable, *command, f"{__file__}:flow"])


if __name__ == "__main__":
    become_bytewax(dict(word.split("=", 1) for word in sys.argv[1:]))
elif TASK in os.environ:
    flow: Any = dataflow(json.loads(os.environ[TASK]))
