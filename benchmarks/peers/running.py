"""One run of a contender, and the reading of its answers."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from peers import chunks, comparison, failure, lengths, loads, nexmark, topics
from peers.contenders import Contender
from peers.installing import Unavailable
from peers.loads import Load
from peers.programs import flink_nexmark

HERE = Path(__file__).parent
CHECKPOINT_S = 2
COMPARED_EPOCHS = 4
LIMIT_S = 600.0
"""No run may take longer: the contender then counts as one that failed."""


def run(
    contender: Contender, command: list[str], load: Load, rows: int, slots: int, scratch: Path
) -> lengths.Run:
    """To the end of ``rows`` rows, answers dropped."""
    return _run(contender, command, load, rows, slots, scratch, answers=None)


def check(
    contender: Contender, command: list[str], load: Load, rows: int, slots: int, scratch: Path
) -> str | None:
    """What is wrong with the answers to ``rows`` rows in several epochs; None: nothing."""
    answers = scratch / "answers"
    load = loads.compared(load, rows)
    contender = replace(contender, epoch_rows=min(contender.epoch_rows, rows // COMPARED_EPOCHS))
    _run(contender, command, load, rows, slots, scratch / "run", answers=answers)
    lines = _read(answers)
    if load.nexmark:
        return _check_nexmark(load, rows, lines)
    keys, values = loads.keys(load, rows), loads.values(rows)
    if load.name != "session":
        table = np.array(lines, np.int64).reshape(-1, 2)
        return comparison.of_sums(table, keys, values, each_row=contender.each_row)
    times = loads.times(rows)
    expected = comparison.sessions(keys, times, values, loads.GAP_MS)
    # The last of the input may stay open in an engine that closes sessions only by its watermark.
    closed = int(times.max()) - loads.GAP_MS - loads.DELAY_MS - 1000
    return comparison.of_sessions([(k, b, n, t) for k, b, n, t in lines], expected, closed)


def _check_nexmark(load: Load, rows: int, lines: list[tuple[int, ...]]) -> str | None:
    times = loads.times(rows, load.step_ms, load.begin_ms)
    expected = nexmark.expected(load.name, times)
    # Without event time no answer waits for a watermark, so none may be missing.
    final = int(times.max()) + (-loads.DELAY_MS if load.timed else 1)
    return comparison.of_sessions(lines, expected, final, noun="window", columns=nexmark.COLUMNS[load.name])


def _read(folder: Path) -> list[tuple[int, ...]]:
    lines = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            with path.open(newline="") as file:
                lines += [tuple(map(int, line)) for line in csv.reader(file)]
    return lines


def words(
    contender: Contender, load: Load, rows: int, slots: int, scratch: Path, answers: Path | None
) -> dict[str, str]:
    """What the contender's program is told, but for the place of its input."""
    told = {
        "load": load.name,
        "rows": str(rows),
        "keys": str(load.keys),
        **({} if load.nexmark else {"key": load.key, "value": loads.VALUE}),
        **({"time": load.time} if load.timed else {}),
        "gap_ms": str(loads.GAP_MS),
        "delay_ms": str(loads.DELAY_MS),
        "slots": str(slots),
        "managed_mib": str(load.managed_mib),
        "checkpoint_s": str(CHECKPOINT_S),
        "scratch": str(scratch),
        **(
            flink_nexmark.words(load.name, timed=load.timed)
            if load.nexmark and contender.engine == "flink"
            else {}
        ),
        **contender.words,
    }
    return told | ({"answers": str(answers)} if answers else {})


def environment() -> dict[str, str]:
    """Programs of Spark import this package; they run in their own folder."""
    places = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def _run(
    contender: Contender,
    command: list[str],
    load: Load,
    rows: int,
    slots: int,
    scratch: Path,
    answers: Path | None,
) -> lengths.Run:
    scratch.mkdir(parents=True)
    told = words(contender, load, rows, slots, scratch, answers)
    if contender.epoch_rows:
        told["input"] = str(chunks.make(scratch / "in", rows, contender.epoch_rows, slots))
    log = scratch.with_suffix(".log")
    measured = [sys.executable, str(HERE / "measured.py"), f"{LIMIT_S:g}", str(log), *command]
    with ExitStack() as beside:
        if contender.engine == "quix":
            told |= beside.enter_context(topics.filled(scratch / "kafka", load, rows, slots))
        result = _measure([*measured, *(f"{name}={value}" for name, value in told.items())], environment())
    shutil.rmtree(scratch, ignore_errors=True)
    if result["code"] != 0:
        raise Unavailable(_failure(result["code"], log))
    log.unlink()
    return lengths.Run(rows, result["wall_s"], result["cpu_s"])


def _measure(command: list[str], given: dict[str, str]) -> dict[str, Any]:
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) as process:
        try:
            printed = process.communicate()[0]
        except BaseException:
            # Killed outright, ``measured.py`` could not end what it has started.
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        raise RuntimeError(f"measured.py ended with exit code {process.returncode}; see its error above")
    result: dict[str, Any] = json.loads(printed)
    return result


def _failure(code: int | None, log: Path) -> str:
    text = log.read_text(errors="replace")
    if code is None:
        return f"did not end within {LIMIT_S:g} s"
    print(text[-3000:], file=sys.stderr, flush=True)
    return f"ended with exit code {code}: {failure.reason(text)}"
