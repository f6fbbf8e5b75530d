"""Quix Streams in ``slots`` processes of one consumer group, over a topic that ``topics.py`` has filled.

State lies in Quix's own RocksDB, and a changelog topic of the broker keeps a copy of it. Quix runs until it is told to
stop, so each process counts the rows that it has answered. All are told at once, when every row of the topic is
answered: one that left the group before would hand its partition and its state over to the others.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, MutableSequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

Task = dict[str, str]
Work = Callable[[Task, int, MutableSequence[int]], None]
"""A process: what it is told, its number, and the rows that each process has answered so far."""
TURN_S = 0.02
POLL_S = 0.1
"""How long Quix waits for a row before it looks whether it has to stop; a second in its own settings."""
STOP_LIMIT_S = 60.0


def add(value: int, state: Any) -> int:
    """The running sum of the row's key."""
    total: int = state.get("total", 0) + value
    state.set("total", total)
    return total


def answers(
    file: TextIO | None, number: int, counted: MutableSequence[int]
) -> Callable[[int, bytes, int, Any], None]:
    """The function that gets each answer: it counts it, and writes it down or drops it."""

    def answer(total: int, key: bytes, timestamp: int, headers: Any) -> None:
        counted[number] += 1
        if file:
            file.write(f"{key.decode()},{total}\n")

    return answer


def work(task: Task, number: int, counted: MutableSequence[int]) -> None:
    """One process of Quix, until SIGTERM; its last checkpoint is then complete."""
    from quixstreams import Application

    folder = task.get("answers")
    with Path(folder, f"{number}.csv").open("w") if folder else nullcontext() as file:
        application = Application(
            broker_address=task["bootstrap"],
            consumer_group="peer",
            auto_offset_reset="earliest",
            commit_interval=float(task["checkpoint_s"]),
            consumer_poll_timeout=POLL_S,
            state_dir=Path(task["scratch"], f"state-{number}"),
        )
        topic = application.topic(task["topic"], key_deserializer="bytes", value_deserializer="integer")
        totals = application.dataframe(topic).apply(add, stateful=True)
        totals.update(answers(file, number, counted), metadata=True)
        application.run()


def run(task: Task, process: Work = work) -> None:
    """Start the processes, and stop them when all rows are answered.

    Raises RuntimeError if one ends by itself, or does not end in peace.
    """
    rows, slots = int(task["rows"]), int(task["slots"])
    context = multiprocessing.get_context("spawn")
    counted = context.RawArray("q", slots)
    workers = [context.Process(target=process, args=(task, number, counted)) for number in range(slots)]
    try:
        for worker in workers:
            worker.start()
        while (done := sum(counted)) < rows:
            if any(worker.exitcode is not None for worker in workers):
                raise RuntimeError(f"a process of Quix ended when {done:,} of {rows:,} rows were answered")
            time.sleep(TURN_S)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(STOP_LIMIT_S)
        codes = [worker.exitcode for worker in workers]
        if any(codes):
            raise RuntimeError(f"the processes of Quix ended with exit codes {codes} instead of 0")
        if sum(counted) != rows:
            raise RuntimeError(f"{sum(counted):,} answers to {rows:,} rows")
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()
                worker.join()


def main(task: Task) -> None:
    """Called with words."""
    if "answers" in task:
        Path(task["answers"]).mkdir()
    run(task)


if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
