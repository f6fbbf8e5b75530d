"""Clicks for the session job: users who come, click for a while, leave, and come back. Seeded.

``python clicks.py FOLDER`` writes them as JSON files that a file stream takes in order. Places are shuffled
within five minutes of event time, which the job's watermark (ten minutes) allows for; a few clicks come hours
too late.
"""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2024, 3, 1, tzinfo=UTC)
DISORDER = timedelta(minutes=5)
PAGES = ("/", "/search", "/product", "/basket", "/help", "/news")


@dataclass(frozen=True, order=True)
class Click:
    """One click of one user."""

    at: datetime
    user: str
    page: str

    def to_json(self) -> str:
        at = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"user": self.user, "page": self.page, "at": at})


def make_clicks(users: int, days: int, seed: int = 7) -> list[Click]:
    """Clicks in the order of arrival: event time, displaced by at most ``DISORDER``. None of them is late."""
    chance = random.Random(seed)
    clicks: set[Click] = set()
    for number in range(users):
        at = START + timedelta(seconds=chance.randrange(6 * 3600))
        while at < START + timedelta(days=days):
            for _ in range(chance.randint(1, 12)):
                clicks.add(Click(at, f"user-{number:04d}", chance.choice(PAGES)))
                at += timedelta(milliseconds=chance.randrange(1, 600_000))
            at += timedelta(seconds=chance.randrange(600, 12 * 3600))
    bound_ms = DISORDER // timedelta(milliseconds=1)
    return sorted(
        sorted(clicks), key=lambda click: click.at + timedelta(milliseconds=chance.randint(0, bound_ms))
    )


def make_late_clicks(clicks: list[Click], count: int, seed: int = 11) -> list[Click]:
    """Clicks from the first third of the time, of users that exist.

    They are late in the last third of the stream.
    """
    chance = random.Random(seed)
    early = clicks[: len(clicks) // 3]
    return [Click(one.at, one.user, "/late") for one in chance.sample(early, count)]


def with_late_clicks(clicks: list[Click], late: list[Click], seed: int = 13) -> list[Click]:
    """Both, the late ones strewn over the last third."""
    chance = random.Random(seed)
    mixed = list(clicks)
    for one in late:
        mixed.insert(chance.randint(len(clicks) * 2 // 3, len(mixed)), one)
    return mixed


def write_files(clicks: list[Click], folder: Path, files: int) -> list[Path]:
    """JSON files with modification times in their order; each appears whole, by a rename."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number in range(files):
        part = clicks[len(clicks) * number // files : len(clicks) * (number + 1) // files]
        hidden = folder / f".clicks-{number:04d}.json"
        hidden.write_text("".join(click.to_json() + "\n" for click in part))
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        written.append(hidden.rename(folder / f"clicks-{number:04d}.json"))
    return written


if __name__ == "__main__":
    regular = make_clicks(users=200, days=3)
    stream = with_late_clicks(regular, make_late_clicks(regular, 20))
    paths = write_files(stream, Path(sys.argv[1]), 30)
    print(f"{len(stream)} clicks in {len(paths)} files under {sys.argv[1]}")
