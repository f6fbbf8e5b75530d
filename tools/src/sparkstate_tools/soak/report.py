"""The soak's table, for the screen and for ``docs/reliability.md``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparkstate_tools.soak import slopes
from sparkstate_tools.soak.quantities import QUANTITIES

HEAD = ("what", "unit", "samples", "median", "growth in 1,000 epochs", "growth over the run", "verdict")


@dataclass(frozen=True)
class Story:
    """One backend's soak over all of its parts."""

    backend: str
    samples: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]

    @property
    def epochs(self) -> int:
        return max((line["epoch"] for line in (*self.samples, *self.events)), default=0)

    @property
    def checkpoints(self) -> int:
        return max((sample["checkpoint"] for sample in self.samples), default=0)

    @property
    def hours(self) -> float:
        """Running time, added up over the parts."""
        seconds: float = sum(event["seconds"] for event in self.events if event["kind"] == "part")
        return seconds / 3600

    @property
    def ended(self) -> str:
        """The day of the newest sample, UTC."""
        newest: float = max((sample["at_ms"] for sample in self.samples), default=0)
        return datetime.fromtimestamp(newest / 1000, UTC).date().isoformat()

    def faults(self) -> Counter[str]:
        """How often each fault was carried out."""
        return Counter(event["fault"] for event in self.events if event["kind"] == "fault")

    def count(self, kind: str) -> int:
        """Events of one kind."""
        return sum(event["kind"] == kind for event in self.events)


def read(folder: Path) -> Story:
    """The story that one soak left in its folder."""
    options = json.loads((folder / "soak.json").read_text())
    return Story(options["backend"], _lines(folder / "samples.jsonl"), _lines(folder / "events.jsonl"))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trends(story: Story) -> list[slopes.Trend]:
    """Of every quantity that has enough samples."""
    found = []
    for quantity in QUANTITIES:
        points = [
            slopes.Point(line["epoch"], line[quantity.name], line.get(quantity.life or ""))
            for line in story.samples
            if line.get(quantity.name) is not None
        ]
        trend = slopes.trend(quantity, points)
        found += [trend] if trend is not None else []
    return found


def table(found: Sequence[slopes.Trend]) -> list[tuple[str, ...]]:
    """The rows under ``HEAD``."""
    return [
        (
            trend.quantity.title,
            trend.quantity.unit,
            str(trend.points),
            f"{trend.median / trend.quantity.scale:,.1f}",
            f"{trend.per_thousand / trend.quantity.scale:+,.2f}",
            f"{trend.growth / trend.quantity.scale:+,.1f}",
            "flat" if trend.flat else "GROWS",
        )
        for trend in found
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table for a page or a screen."""
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(HEAD), line(["-" * width for width in widths]), *map(line, rows)])


def summary(story: Story) -> str:
    """The story of the run, in a few sentences."""
    faults = ", ".join(f"{fault} {times} times" for fault, times in sorted(story.faults().items()))
    return (
        f"{story.backend}: {story.epochs:,} epochs, {story.checkpoints:,} checkpoints begun, {story.hours:.1f} hours "
        f"in {story.count('part')} part(s). {faults or 'Nothing was broken'}. "
        f"The reader checked every row of {max((s['complete'] for s in story.samples), default=0):,} input files. "
        f"The run ended on {story.ended}."
    )
