"""The table at the end, in text; the page shows the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from sparkstate_tools.demo.scenario import Outcome


def seconds(milliseconds: int | None) -> str:
    """``4.2 s``, or a dash for what did not happen."""
    return "–" if milliseconds is None else f"{milliseconds / 1000:.1f} s"


RECOVERY_HEADER = (
    "killed", "in phase", "at", "restored from", "replayed", "noticed after", "running after",
    "caught up after",
)  # fmt: skip


def recovery_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """One row for each kill, one for the restore into the second run."""
    rows: list[tuple[str, ...]] = []
    for kill, back in outcome.recoveries:
        rows.append(
            (
                f"{kill.process} (kill -9)",
                kill.phase,
                f"{seconds(kill.t_ms - outcome.story.begun_ms)}, epoch {kill.epoch}",
                f"epoch {back.first_epoch - 1}" if back.first_epoch is not None else "–",
                _epochs(back.replayed(kill)),
                seconds(back.noticed_ms),
                seconds(back.running_ms),
                seconds(back.caught_up_ms),
            )
        )
    rows.append(
        (
            f"restore, {outcome.options.slots} → {outcome.options.restored_slots} slots",
            "–",
            "run 2",
            f"savepoint of epoch {outcome.savepoint.get('epoch')}",
            "–",
            "–",
            seconds(outcome.restore_ms),
            "–",
        )
    )
    return rows


def _epochs(count: int | None) -> str:
    return "–" if count is None else f"{count} epoch{'' if count == 1 else 's'}"


COMPARISON_HEADER = ("run", "output", "records expected", "records written", "missing", "too many", "verdict")


def comparison_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """One row for each output of each run."""
    return [
        (
            run,
            output,
            f"{difference.expected:,}",
            f"{difference.found:,}",
            f"{difference.missing.total():,}",
            f"{difference.unexpected.total():,}",
            "equal" if difference.equal else "DIFFERENT",
        )
        for run, differences in outcome.comparisons.items()
        for output, difference in differences.items()
    ]


def verdict(outcome: Outcome) -> str:
    """The last line: ``PASS`` or ``FAIL``, and what it means."""
    took = seconds(outcome.ended_ms - outcome.story.begun_ms)
    if outcome.passed:
        return (
            f"PASS: {outcome.rows:,} rows, two kills, one restore with another parallelism; every output "
            f"of both runs equals the batch calculation record for record ({took})"
        )
    return f"FAIL: see the differences above ({took})"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def text(outcome: Outcome) -> str:
    """Both tables and the verdict."""
    return "\n\n".join(
        [
            text_table(RECOVERY_HEADER, recovery_rows(outcome)),
            text_table(COMPARISON_HEADER, comparison_rows(outcome)),
            verdict(outcome),
        ]
    )
