"""The line of a purge, and the bytes that it tells."""

from __future__ import annotations

import io
from pathlib import Path

from support.storage.checkpoints import JOB
from support.storage.stores import ManualClock

from sparkstate.checkpoint import purge
from sparkstate.log import lineage
from sparkstate.log.log import LineageLog
from sparkstate.runner.progress import TransferLine
from sparkstate.storage import open_store

MIB = 2**20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_purge_tells_on_a_terminal_how_far_it_is() -> None:
    clock, stream = ManualClock(), Terminal()
    line = TransferLine(stream, clock, "purge")
    line.tell(0, 4 * MIB)
    line.tell(1, 4 * MIB)  # too soon after the last one
    clock.sleep(10)
    line.tell(MIB, 4 * MIB)
    line.clear()
    assert stream.getvalue().split("\r\x1b[2K") == [
        "",
        "purge 0 B of 4.0 MiB",
        "purge 1.0 MiB of 4.0 MiB, 30 s left",
        "",
    ]


def test_where_nobody_looks_nothing_is_written() -> None:
    stream = io.StringIO()
    line = TransferLine(stream, ManualClock(), "purge")
    line.tell(1, 2)
    assert not line.takes_turn()
    line.clear()
    assert stream.getvalue() == ""


def test_a_terminal_that_was_closed_does_not_stop_the_work() -> None:
    stream = Terminal()
    line = TransferLine(stream, ManualClock(), "purge")
    stream.close()
    line.tell(1, 2)
    line.clear()


def test_the_bytes_of_a_purge_go_up_to_all_that_there_is(tmp_path: Path) -> None:
    root, clock = open_store(str(tmp_path)), ManualClock()
    made = lineage.open_lineage(root, JOB, clock, attempt=1)
    LineageLog(made.store, clock).claim(1, "test")
    for number in range(3):
        made.store.put_if_absent(f"shared/{number}", b"x" * 100)
    told: list[tuple[int, int]] = []
    done = purge.purge(root, JOB, open_store, clock, "test", lambda *bytes_: told.append(bytes_))
    assert (done.files, done.size_bytes) == (3, 300)
    assert told == [(0, 300), (100, 300), (200, 300), (300, 300)]
