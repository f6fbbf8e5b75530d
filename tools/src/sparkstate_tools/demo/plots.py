"""The plots of the page, as SVG text."""

from __future__ import annotations

import bisect
import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sparkstate_tools.demo.scenario import ALLOWED_DELAY, END_OF_INPUT_WATERMARK, Outcome
from sparkstate_tools.demo.watch import Sample

INK, GREY, BLUE, ORANGE, GREEN, RED = "#1f2733", "#8a94a6", "#2f6fde", "#e08a1e", "#1f9d63", "#d0342c"
STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": "#c3cad6",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6eaf0",
    "grid.linewidth": 0.8,
    "xtick.color": "#5a6474",
    "ytick.color": "#5a6474",
    "legend.frameon": False,
    "svg.fonttype": "none",
}
mpl.rcParams.update(STYLE)


def rows_read(sample: Sample, outcome: Outcome) -> int | None:
    """The rows in the committed epochs: the watermark says which file was the last. None before there is one."""
    if sample.watermark_ms is None:
        return None
    if sample.watermark_ms == END_OF_INPUT_WATERMARK:
        return outcome.rows
    largest_ms = sample.watermark_ms + int(ALLOWED_DELAY.total_seconds() * 1000) + 1
    files = bisect.bisect_right([end_ms for end_ms, _ in outcome.file_ends], largest_ms)
    return outcome.file_ends[files - 1][1] if files else 0


def rows_over_time(outcome: Outcome) -> str:
    """Rows in committed state against rows released; a recovery is a fall and a steep climb."""
    figure, axes = _figure(3.6)
    for run, color in (("run 1", BLUE), ("run 2", GREEN)):
        known = [
            (sample, rows_read(sample, outcome)) for sample in outcome.story.samples if sample.run == run
        ]
        rows = {sample.t_ms: count for sample, count in known if count is not None}
        parts = _without_gaps([sample for sample, count in known if count is not None])
        for number, part in enumerate(parts):
            axes.plot(
                [_at(sample.t_ms, outcome) for sample in part],
                [rows[sample.t_ms] / 1000 for sample in part],
                color=color,
                linewidth=2,
                label=f"{run}: rows in committed epochs" if number == 0 else None,
            )
    paced = [sample for sample in outcome.story.samples if sample.run == "run 1"]
    axes.plot(
        [_at(sample.t_ms, outcome) for sample in paced],
        [outcome.rows * sample.released / outcome.options.files / 1000 for sample in paced],
        color=GREY,
        linewidth=1.2,
        linestyle=(0, (2, 2)),
        label="rows released into the input folder",
    )
    axes.set_ylabel("thousand rows")
    axes.set_ylim(bottom=0, top=outcome.rows / 1000 * 1.12)
    _mark_events(axes, outcome)
    _legend(axes)
    return _svg(figure)


def throughput(outcome: Outcome) -> str:
    """Rows per second as the job reports them."""
    figure, axes = _figure(2.2)
    for run, color in (("run 1", BLUE), ("run 2", GREEN)):
        for part in _without_gaps([sample for sample in outcome.story.samples if sample.run == run]):
            axes.plot(
                [_at(sample.t_ms, outcome) for sample in part],
                [sample.rows_per_s for sample in part],
                color=color,
                linewidth=1.6,
            )
    axes.set_ylabel("rows per second")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    _mark_events(axes, outcome, labels=False)
    return _svg(figure)


def checkpoint_sizes(outcome: Outcome) -> str:
    """For every completed checkpoint: the state that it represents, and what had to be uploaded."""
    figure, axes = _figure(2.6)
    for kind, marker, label in (("checkpoint", "o", "whole state"), ("savepoint", "D", "savepoint")):
        done = _completed(outcome, kind)
        times = [_at(one["trigger_ms"], outcome) for one in done]
        whole = [(one["state_bytes"] or 0) / 1e6 for one in done]
        axes.plot(
            times, whole, marker, color=BLUE if kind == "checkpoint" else ORANGE, markersize=5, label=label
        )
        if kind == "checkpoint":
            delta = [(one["uploaded_bytes"] or 0) / 1e6 for one in done]
            axes.vlines(times, 0, delta, color=GREEN, linewidth=3, label="uploaded for it")
    axes.set_ylabel("MB")
    axes.set_ylim(bottom=0)
    _mark_events(axes, outcome, labels=False)
    _legend(axes)
    return _svg(figure)


def checkpoint_durations(outcome: Outcome) -> str:
    """From the trigger to the commit, and how long an epoch had to wait."""
    figure, axes = _figure(2.2)
    done = _completed(outcome, "checkpoint")
    times = [_at(one["trigger_ms"], outcome) for one in done]
    axes.vlines(
        times,
        0,
        [one["duration_ms"] or 0 for one in done],
        color=BLUE,
        linewidth=3,
        label="trigger to commit",
    )
    axes.plot(
        times,
        [one["sync_pause_ms"] or 0 for one in done],
        "_",
        color=RED,
        markersize=9,
        label="an epoch had to wait",
    )
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    _mark_events(axes, outcome, labels=False)
    _legend(axes)
    return _svg(figure)


def _completed(outcome: Outcome, kind: str) -> list[dict[str, Any]]:
    return [
        one
        for one in outcome.story.checkpoints.values()
        if one["status"] == "COMPLETED"
        and one["kind"] == kind
        and one["trigger_ms"] >= outcome.story.begun_ms
    ]


def _figure(height: float) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(10.4, height))
    # The same margins everywhere, so that the plots' time axes stand exactly below one another.
    figure.subplots_adjust(left=0.075, right=0.995, bottom=0.42 / height, top=1 - 0.34 / height)
    return figure, axes


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.008, 0.99),
        fontsize=9,
        ncols=3,
        handlelength=1.6,
        columnspacing=1.6,
    )


def _at(t_ms: int, outcome: Outcome) -> float:
    return (t_ms - outcome.story.begun_ms) / 1000


def _without_gaps(samples: Sequence[Sample], gap_ms: int = 2500) -> list[list[Sample]]:
    parts: list[list[Sample]] = []
    for sample in samples:
        if not parts or sample.t_ms - parts[-1][-1].t_ms > gap_ms:
            parts.append([])
        parts[-1].append(sample)
    return parts


def _mark_events(axes: Axes, outcome: Outcome, labels: bool = True) -> None:
    axes.set_xlim(0, _at(outcome.ended_ms, outcome))
    axes.xaxis.set_major_formatter("{x:.0f} s")
    for kill, back in outcome.recoveries:
        start = _at(kill.t_ms, outcome)
        axes.axvline(start, color=RED, linewidth=1.2)
        if back.running_ms is not None:
            axes.axvspan(start, start + back.running_ms / 1000, color=RED, alpha=0.09, linewidth=0)
        if labels:
            _label(axes, start, f"kill -9 {kill.process}", RED)
    for event in outcome.story.events:
        if event.kind == "savepoint":
            axes.axvline(_at(event.t_ms, outcome), color=ORANGE, linewidth=1.2, linestyle=(0, (4, 2)))
            if labels:
                _label(axes, _at(event.t_ms, outcome), "savepoint", ORANGE, left=True)


def _label(axes: Axes, x: float, text: str, color: str, left: bool = False) -> None:
    axes.text(
        x,
        0.99,
        f" {text} ",
        color=color,
        fontsize=9,
        va="top",
        ha="right" if left else "left",
        transform=axes.get_xaxis_transform(),
    )


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    whole = text.getvalue()
    return whole[whole.index("<svg") :]
