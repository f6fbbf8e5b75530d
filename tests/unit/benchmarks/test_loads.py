"""What a load of ``make bench`` changes of a contender of ours: in the table and in a trace alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.examples import example

FOLDER = example.ROOT / "benchmarks"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """``benchmarks/run.py``, which finds its siblings beside itself, as a script does. Their short names are nobody
    else's afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield example.load(FOLDER / "run.py")
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
                del sys.modules[name]


@pytest.mark.parametrize(
    ("load", "contender", "function", "managed"),
    [
        ("large", "rocksdb-batches", "padded-batches", "32Mi"),
        ("large", "rocksdb", "padded", "32Mi"),
        ("distinct", "rocksdb-batches", "batches", None),
        ("windows", "rocksdb-sliding", "sliding", None),
    ],
)
def test_a_load_has_its_own_function_and_memory(
    run: ModuleType, load: str, contender: str, function: str, managed: str | None
) -> None:
    given = run.CONTENDERS[contender].ours
    made = run._setup(given, run.LOADS[load])
    assert (made.function, made.managed) == (function, managed)
    assert (made.backend, made.interval) == (given.backend, given.interval)


class Recorded(Exception):
    """In the place of a run, which takes minutes."""


def test_a_trace_is_of_the_contender_as_the_load_runs_it(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def record(setup: Any, folder: Path, slots: int, scratch: Path) -> None:
        found.extend((setup, folder, slots))
        raise Recorded

    def make(folder: Path, *of_load: int) -> Path:
        found.append(of_load)
        return folder

    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run.data, "make", make)
    monkeypatch.setattr(run.traced, "record", record)
    arguments = "--trace --loads large --only rocksdb-batches --rows 4000 --slots 3"
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments.split()])
    with pytest.raises(Recorded):
        run.main()
    of_load, setup, folder, slots = found
    large = run.LOADS["large"]
    assert of_load == (1000, 7, large.keys, large.fills)
    assert (setup.backend, setup.function, setup.managed) == ("rocksdb", "padded-batches", "32Mi")
    assert (folder.name, slots) == ("in", 3)
