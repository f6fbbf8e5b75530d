"""The page that remains: one HTML file with everything in it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from sparkstate_tools.demo import plots, report
from sparkstate_tools.demo.scenario import Outcome

STYLE = Path(__file__).with_suffix(".css")


def write(outcome: Outcome, path: Path) -> None:
    """Write the page; it needs nothing but a browser."""
    passed = "" if outcome.passed else " bad"
    body = [
        "<h1>Two kills, one restore, no record lost or doubled</h1>"
        if outcome.passed
        else "<h1>The outputs differ from what they should be</h1>",
        f"<p>{_what(outcome)}</p>",
        f'<section class="verdict{passed}">{escape(report.verdict(outcome))}</section>',
        _figures(outcome),
        _section(
            "Rows over time",
            "In committed epochs. A kill throws the job back to a checkpoint.",
            plots.rows_over_time(outcome),
        ),
        _section(
            "How long each recovery took", "", _table(report.RECOVERY_HEADER, report.recovery_rows(outcome))
        ),
        _section(
            "Compared with the batch calculation",
            "Read from the committed files, counted as multisets, before any de-duplication.",
            _table(report.COMPARISON_HEADER, report.comparison_rows(outcome)),
        ),
        _section("Throughput", "Red: from the kill to the first committed epoch.", plots.throughput(outcome)),
        _section(
            "Checkpoint sizes",
            "Checkpoints are incremental: only new RocksDB files are uploaded.",
            plots.checkpoint_sizes(outcome),
        ),
        _section("Checkpoint durations", "", plots.checkpoint_durations(outcome)),
        _section("What happened", "", _timeline(outcome)),
    ]
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>sparkstate: the demonstration</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE.read_text()}</style><main>{''.join(body)}</main></html>\n"
    )


def _what(outcome: Outcome) -> str:
    return (
        f"<b>examples/01-flight-rotations</b> on the {outcome.rows:,} departures from New York in 2013, in "
        f"{outcome.options.files} files, out of order by up to {outcome.disorder}; by aircraft, RocksDB"
    )


def _figures(outcome: Outcome) -> str:
    done = [one for one in outcome.story.checkpoints.values() if one["status"] == "COMPLETED"]
    last = max((sample.epoch for sample in outcome.story.samples if sample.run == "run 1"), default=0)
    figures = [
        (f"{outcome.rows:,}", "rows of input"),
        (f"{last + 1}", "epochs in run 1"),
        (f"{len([one for one in done if one['kind'] == 'checkpoint'])}", "completed checkpoints"),
        *(
            (report.seconds(back.running_ms), f"until running again, {kill.process}")
            for kill, back in outcome.recoveries
        ),
        (report.seconds(outcome.restore_ms), "from start to first epoch, run 2"),
        (report.seconds(outcome.ended_ms - outcome.story.begun_ms), "in all"),
    ]
    cells = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in figures
    )
    return f'<div class="figures">{cells}</div>'


def _section(title: str, text: str, content: str) -> str:
    words = f"<p>{escape(text)}</p>" if text else ""
    return f"<section><h2>{escape(title)}</h2>{words}{content}</section>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = "".join(
        "<tr>" + "".join(f"<td{_mark(cell)}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'


def _mark(cell: str) -> str:
    return {"equal": ' class="equal"', "DIFFERENT": ' class="different"'}.get(cell, "")


def _timeline(outcome: Outcome) -> str:
    told = [event for event in outcome.story.events if event.kind != "progress"]
    return f"<ol>{''.join(_item(event.t_ms, event.kind, event.text, outcome) for event in told)}</ol>"


def _item(t_ms: int, kind: str, text: str, outcome: Outcome) -> str:
    at = (t_ms - outcome.story.begun_ms) / 1000
    return f'<li class="{kind}"><time>{at:.1f} s</time><span>{escape(text.strip())}</span></li>'
