"""Makes payments and rules with a planted truth, and finds the alerts by sorting: ``python payments.py FOLDER``.

Limits change every few hours. Each planted card strikes three times within an hour, by amounts that would be no
strikes under the limit before or after, so a limit that is applied too early or too late gives other alerts.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
HOURS = 24
METHODS = ("card", "transfer", "wallet")
HOUR = timedelta(hours=1)
TIME = pa.timestamp("us", tz="UTC")
PAYMENTS = pa.schema(
    [
        ("id", pa.int64()),
        ("card", pa.string()),
        ("method", pa.string()),
        ("amount", pa.int64()),
        ("at", TIME),
    ]
)
RULES = pa.schema([("method", pa.string()), ("most", pa.int64()), ("since", TIME)])


@dataclass(frozen=True)
class Rule:
    """``most`` is the limit of a method from ``since`` on."""

    method: str
    most: int
    since: datetime


@dataclass(frozen=True)
class Payment:
    """One payment."""

    id: int
    card: str
    method: str
    amount: int
    at: datetime


def make_rules(seed: int = 1) -> list[Rule]:
    """Each hour the limits of all methods; those of one method change every three hours."""
    chance = random.Random(seed)
    most = dict.fromkeys(METHODS, 500)
    rules = []
    for hour in range(HOURS + 1):
        if hour % 3 == 0:
            changed = METHODS[hour // 3 % len(METHODS)]
            most[changed] = 200 if most[changed] == 500 else 500
        minute = chance.randrange(0, 5)
        rules += [Rule(each, most[each], BEGIN + hour * HOUR + timedelta(minutes=minute)) for each in METHODS]
    return rules


def make_payments(rules: Sequence[Rule], cards: int = 40, seed: int = 2) -> list[Payment]:
    """In order of time, up to five minutes mixed."""
    chance = random.Random(seed)
    drawn: list[tuple[str, str, int, datetime]] = []
    for card in range(cards):
        for _ in range(HOURS * 2):
            at = BEGIN + timedelta(seconds=chance.randrange(600, HOURS * 3600))
            drawn.append((f"card-{card}", chance.choice(METHODS), chance.randrange(1, 190), at))
    lowered = [rule for rule in rules if rule.most == 200]
    for number, rule in enumerate(chance.sample(lowered, 12)):
        # Above 200 and below 500: strikes under this rule, and none under the one of other hours.
        for minute in (10, 20, 30):
            at = rule.since + timedelta(minutes=minute)
            drawn.append((f"planted-{number}", rule.method, chance.randrange(201, 499), at))
    mixed = sorted(drawn, key=lambda each: (each[3] + timedelta(seconds=chance.randrange(0, 300)), each[0]))
    return [Payment(number, *each) for number, each in enumerate(mixed)]


def expected(payments: Sequence[Payment], rules: Sequence[Rule]) -> list[tuple[str, int, datetime, int]]:
    """The alerts: card, payment, time and amount."""
    strikes: dict[str, list[datetime]] = {}
    alerts = []
    for payment in sorted(payments, key=lambda each: (each.at, each.id)):
        held = [rule for rule in rules if rule.method == payment.method and rule.since <= payment.at]
        if not held or payment.amount <= max(held, key=lambda rule: rule.since).most:
            continue
        recent = [at for at in strikes.get(payment.card, []) if at > payment.at - HOUR]
        recent.append(payment.at)
        if len(recent) == 3:
            alerts.append((payment.card, payment.id, payment.at, payment.amount))
            recent = []
        strikes[payment.card] = recent
    return sorted(alerts)


def write(payments: Sequence[Payment], rules: Sequence[Rule], folder: str | Path) -> None:
    """A file of payments and one of rules for each hour."""
    per_file = -(-len(payments) // HOURS)
    for number in range(HOURS):
        _write(folder, "payments", number, PAYMENTS, payments[number * per_file :][:per_file])
    for number in range(HOURS + 1):
        _write(folder, "rules", number, RULES, rules[number * len(METHODS) :][: len(METHODS)])


def _write(folder: str | Path, kind: str, number: int, schema: pa.Schema, rows: Sequence[Any]) -> None:
    path = Path(folder) / kind / f"{number:03d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([vars(row) for row in rows], schema), path)
    # Spark reads files in the order of their times, which it knows to the millisecond.
    seconds = BEGIN.timestamp() + number
    os.utime(path, (seconds, seconds))


if __name__ == "__main__":
    made = make_rules()
    write(make_payments(made), made, sys.argv[1])
