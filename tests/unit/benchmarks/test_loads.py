"""What a load of ``make bench`` changes of a contender of ours: in the table and in a trace alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.examples import example

FOLDER = example.ROOT / "benchmarks"
SETUPS = """
import dataclasses, json, run
made = {
    f"{load} {name}": [dataclasses.asdict(ours) for ours in (given, run._setup(given, run.LOADS[load]))]
    for load in run.LOADS
    for name in run.LOADS[load].contenders
    if (given := run.CONTENDERS[name].ours)
}
print(json.dumps(made))
"""
TRACE = """
import dataclasses, json, pathlib, sys, run

def make(folder, *of_load):
    global loaded
    loaded = of_load
    return folder

def record(setup, folder, slots, scratch):
    print(json.dumps([loaded, dataclasses.asdict(setup), folder.name, slots]))
    raise SystemExit  # in the place of a run, which takes minutes

run.RESULTS, run.data.make, run.traced.record = pathlib.Path(sys.argv[1]), make, record
sys.argv[1:] = [*"--trace --loads large --only rocksdb-batches --rows 4000 --slots 3".split(), *sys.argv[2:]]
run.main()
"""


def printed(code: str, *arguments: str) -> list[Any]:
    """What a program beside ``benchmarks/run.py`` prints, by lines of JSON."""
    return [json.loads(line) for line in lines(code, *arguments)]


def lines(code: str, *arguments: str) -> list[str]:
    """The same as text."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("contender", "function", "managed"),
    [
        ("large rocksdb-batches", "padded-batches", "32Mi"),
        ("large rocksdb", "padded", "32Mi"),
        ("distinct rocksdb-batches", "batches", None),
        ("windows rocksdb-sliding", "sliding", None),
    ],
)
def test_a_load_has_its_own_function_and_memory(contender: str, function: str, managed: str | None) -> None:
    (setups,) = printed(SETUPS)
    given, made = setups[contender]
    assert (made["function"], made["managed"]) == (function, managed)
    assert (made["backend"], made["interval"]) == (given["backend"], given["interval"])


@pytest.mark.parametrize(("options", "times"), [((), 10), (("--times", "100"), 100)])
def test_a_trace_is_of_the_contender_as_the_load_runs_it(
    tmp_path: Path, options: tuple[str, ...], times: int
) -> None:
    (((rows, epochs, keys, fills), setup, folder, slots),) = printed(TRACE, str(tmp_path), *options)
    assert (rows, epochs, fills) == (1000, 10, 2)
    assert keys * 512 == times * 2 * (32 << 20)  # bytes of a key; managed memory of two slots
    assert (setup["backend"], setup["function"], setup["managed"]) == ("rocksdb", "padded-batches", "32Mi")
    assert (folder, slots) == ("in", 3)


STARTED = """
import json, os, pathlib, run, ours

class Process:
    def __init__(self, command, env, **others):
        print(json.dumps([ours.COMPILED, env[ours.COMPILED]]))
        raise SystemExit  # in the place of a driver

ours.subprocess.Popen = Process
ours.run(run.CONTENDERS[os.environ["CONTENDER"]].ours, pathlib.Path("in"), 2, pathlib.Path(os.environ["SCRATCH"]))
"""
LEFT_OUT = """
import json, sys, run

def measure(load, options, scratch):
    print(json.dumps(options.only))
    raise SystemExit

run.measure_load = measure
run.main()
"""


@pytest.mark.parametrize(("contender", "told"), [("hashmap", "0"), ("rocksdb-compiled", "1")])
def test_a_driver_is_told_which_path_its_records_take(
    contender: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKSTATE_COMPILED", "0" if told == "1" else "1")  # must not decide
    monkeypatch.setenv("CONTENDER", contender)
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    assert printed(STARTED) == [["SPARKSTATE_COMPILED", told]]


def test_what_is_not_built_is_left_out_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARKSTATE_COMPILED", "0")  # as good as not installed
    code = f"import sys; sys.argv[1:] = ['--only', 'hashmap-compiled', 'rocksdb']\n{LEFT_OUT}"
    said, only = lines(code)
    assert said.startswith("left out: hashmap-compiled, because sparkstate-compiled is turned off")
    assert json.loads(only) == ["rocksdb"]

    alone = f"import sys; sys.argv[1:] = ['--only', 'hashmap-compiled']\n{LEFT_OUT}"
    with pytest.raises(subprocess.CalledProcessError):
        lines(alone)
    assert "call `make compiled` first" in capfd.readouterr().err
