"""The live line: its words, and how it is kept alive on a terminal and elsewhere."""

import io

import pytest

from sparkstate.control import documents
from sparkstate.runner import progress
from sparkstate.testing import ManualClock
from sparkstate_tools.drivers import control_job


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def status(**fields) -> documents.JobStatus:
    base = documents.JobStatus(job_uid="u", name="rotations", phase=documents.DriverPhase.RUNNING)
    return base.model_copy(update=fields)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 1024**3, "5.0 GiB"), (2**50, "1024.0 TiB")],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert progress.size(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0 s"),
        (9_940, "9.9 s"),
        (59_999, "59 s"),
        (60_000, "1 min 0 s"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (86_399_000, "23 h 59 min"),
        (86_400_000, "1 d 0 h"),
        (-2_000, "-2.0 s"),
    ],
)
def test_durations_are_short(ms: int, text: str) -> None:
    assert progress.duration(ms) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(0, "0 rows/s"), (999, "999 rows/s"), (12_300, "12.3 k rows/s"), (2.5e6, "2.5 M rows/s")],
)
def test_rates_are_short(per_s: float, text: str) -> None:
    assert progress.rate(per_s) == text


def test_the_line_has_epoch_rate_state_checkpoint_and_lag() -> None:
    shown = progress.line(
        status(
            epoch=41,
            rows_per_s=56.0,
            state_bytes=2048,
            lag_ms=4_000,
            watermark_ms=1,
            last_checkpoint=control_job.checkpoint(7, trigger_ms=1_000, duration_ms=500, uploaded_bytes=1024),
        ),
        now_ms=4_500,
    )
    assert shown.split(" · ") == [
        "epoch 41",
        "56 rows/s",
        "state 2.0 KiB",
        "checkpoint 7 3.0 s ago, took 0.5 s, 1.0 KiB new",
        "lag 4.0 s",
    ]


def test_the_line_says_what_is_out_of_the_ordinary() -> None:
    shown = progress.line(status(phase=documents.DriverPhase.RECOVERING, restarts=2), now_ms=0)
    assert shown == "recovering · no epoch yet · 0 rows/s · state 0 B · no checkpoint yet · 2 restarts"
    away = documents.StorageAway(url="file:///full", doing="store checkpoint 7", since_ms=2_000)
    assert progress.line(status(storage_away=(away,)), now_ms=14_000).startswith(
        "storage away 12 s · no epoch"
    )
    ended = status(epoch=1, watermark_ms=documents.END_OF_INPUT_WATERMARK, lag_ms=None)
    assert progress.line(ended, now_ms=0).endswith("input ended")


def test_on_a_terminal_one_line_is_rewritten_and_messages_stay_above_it() -> None:
    terminal = Terminal()
    reporter = progress.Reporter(terminal, ManualClock(0))
    reporter.progress(status(epoch=1))
    reporter.progress(status(epoch=2))
    reporter.message("savepoint taken")
    reporter.clear()
    assert screen(terminal.getvalue()) == ["savepoint taken", ""]
    reporter.progress(status(epoch=3))
    assert screen(terminal.getvalue())[-1].startswith("epoch 3")


def test_a_line_is_cut_at_the_terminals_edge(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    progress.Reporter(terminal, ManualClock(0)).progress(status(epoch=1))
    assert screen(terminal.getvalue()) == ["epoch 1 · 0 rows/s "]


def test_elsewhere_a_line_is_written_every_few_seconds_and_when_the_phase_changes() -> None:
    stream, clock = io.StringIO(), ManualClock(0)
    reporter = progress.Reporter(stream, clock)
    for second in range(12):
        reporter.progress(status(epoch=second))
        clock.sleep(1.0)
    reporter.progress(status(epoch=12, phase=documents.DriverPhase.STOPPING))
    assert [line.split(" · ")[0] for line in stream.getvalue().splitlines()] == [
        "epoch 0",
        "epoch 5",
        "epoch 10",
        "stopping",
    ]
    assert "\r" not in stream.getvalue()


def test_without_progress_only_messages_are_written() -> None:
    stream = io.StringIO()
    reporter = progress.Reporter(stream, ManualClock(0), show_progress=False)
    reporter.progress(status(epoch=1))
    reporter.message("done")
    assert stream.getvalue() == "done\n"


def screen(written: str) -> list[str]:
    """What a terminal shows after these bytes: carriage return and erase-line are all that is used."""
    lines = [""]
    for part in (
        written.replace("\r\x1b[2K", "\x00")
        .replace("\n", "\x01")
        .replace("\x00", "|\x00|")
        .replace("\x01", "|\x01|")
        .split("|")
    ):
        if part == "\x00":
            lines[-1] = ""
        elif part == "\x01":
            lines.append("")
        else:
            lines[-1] += part
    return lines


def test_the_line_tells_long_work_with_its_bytes_and_the_time_left() -> None:
    under_way = documents.Progress(
        kind=documents.LongWorkKind.RESTORE,
        since_ms=0,
        done_bytes=120 * 2**20,
        total_bytes=1200 * 2**20,
        left_ms=27_000,
    )
    saved = under_way.model_copy(
        update={"kind": documents.LongWorkKind.SAVEPOINT, "name": "t-1", "left_ms": None}
    )
    shown = progress.line(
        status(phase=documents.DriverPhase.RESTORING, progress=(under_way, saved)), now_ms=0
    )
    assert shown.startswith(
        "restoring · restore 120.0 MiB of 1.2 GiB, 27 s left · savepoint t-1 120.0 MiB of 1.2 GiB · "
    )


def test_a_restore_into_another_number_of_slots_is_told_as_a_rescale() -> None:
    under_way = documents.Progress(
        kind=documents.LongWorkKind.RESTORE,
        since_ms=0,
        done_bytes=1,
        total_bytes=2048,
        slots_before=2,
        slots_after=3,
    )
    shown = progress.line(status(phase=documents.DriverPhase.RESTORING, progress=(under_way,)), now_ms=0)
    assert shown.startswith("restoring · rescale 2 to 3 slots: restore 1 B of 2.0 KiB · ")
