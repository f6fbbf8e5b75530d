"""Jobs whose operators have two inputs: exactly once through kills, and through a savepoint into other slots."""

from __future__ import annotations

import datetime
import functools
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.drivers import lives
from support.drivers.lives import Kill, Victim, every_kill

from sparkstate.control import documents
from sparkstate.phases import CHECKPOINT_PHASES, EPOCH_PHASES, ProcessPhase
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark
ROWS = 60
"""In each file of orders."""
RATES = 5
"""In each file of rates."""
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Input:
    """Files of orders and of payments. A payment comes up to two files before or after its order."""

    folder: Path
    rng: random.Random = field(default_factory=lambda: random.Random(5))
    orders: list[tuple[str, int, int, int]] = field(default_factory=list)
    paid: dict[int, str] = field(default_factory=dict)
    payments: list[tuple[str, int, int]] = field(default_factory=list)
    rates: list[tuple[str, int]] = field(default_factory=list)
    files: int = 0
    pending: dict[int, list[tuple[str, int, str]]] = field(default_factory=lambda: defaultdict(list))

    def write(self, files: int, rows: int = ROWS) -> None:
        for number in range(self.files, self.files + files):
            made = [
                (
                    f"c{self.rng.randrange(20)}",
                    number * rows + i,
                    self.rng.randrange(10),
                    number * 100 + self.rng.randrange(400),
                )
                for i in range(rows)
            ]
            self.orders += made
            for customer, order, _, _ in made:
                if self.rng.random() < 0.7:
                    self.paid[order] = self.rng.choice(["card", "cash"])
                    self.pending[number + self.rng.randrange(3)].append((customer, order, self.paid[order]))
            totals_of = {
                name: [row[i] for row in made] for i, name in enumerate(("customer", "id", "amount", "at"))
            }
            self._put("orders", number, pa.table(totals_of))
            self._write_payments(number, self.pending.pop(number, []))
            changes = [(self.rng.choice(["low", "high"]), number * 10 + i) for i in range(RATES)]
            self.rates += changes
            table = {"name": [name for name, _ in changes], "factor": [factor for _, factor in changes]}
            self._put("rates", number, pa.table(table))
        self.files += files

    def close(self) -> None:
        """The payments that are still to come."""
        for number in sorted(self.pending):
            self._write_payments(number, self.pending.pop(number))

    def _write_payments(self, number: int, made: list[tuple[str, int, str]]) -> None:
        moments = [number * 100 + self.rng.randrange(400) for _ in made]
        self.payments += [(payer, order, at) for (payer, order, _), at in zip(made, moments, strict=True)]
        times = [EPOCH + datetime.timedelta(milliseconds=at) for at in moments]
        table = pa.table(
            {
                "payer": pa.array([row[0] for row in made], pa.string()),
                "order_id": pa.array([row[1] for row in made], pa.int64()),
                "method": pa.array([row[2] for row in made], pa.string()),
                "paid": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        self._put("payments", number, table)

    def _put(self, name: str, number: int, table: pa.Table) -> None:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number:05d}.parquet"
        temporary = path.with_name(f".{path.name}")
        pq.write_table(table, temporary)
        changed = totals.changed_s(number)
        os.utime(temporary, (changed, changed))
        temporary.rename(path)

    def expected(self) -> dict[str, Counter[tuple[Any, ...]]]:
        """By sink, computed without anything of ours."""
        matched = [(c, i, a, self.paid[i]) for c, i, a, _ in self.orders if i in self.paid]
        counts = Counter(row[0] for row in matched)
        every = Counter(row[0] for row in self.orders)
        histories: dict[str, str] = defaultdict(str)
        for name, factor in self.rates:
            histories[name] += f"{factor},"
        told = ";".join(f"{name}:{history}" for name, history in sorted(histories.items()))
        # Each epoch has one file of each source, and the rates of an epoch come before its orders.
        file_of = {
            customer: min(i for c, i, _, _ in self.orders if c == customer) // ROWS for customer in every
        }
        checked = Counter((i, RATES * (i // ROWS + 1)) for _, i, _, _ in self.orders)
        return {
            "matched": Counter(matched),
            "unpaid": Counter((c, i) for c, i, _, _ in self.orders if i not in self.paid),
            "counted": Counter((c, counts[c], every[c]) for c in every),
            "settled": Counter((i, "paid" if i in self.paid else "unpaid") for _, i, _, _ in self.orders),
            "priced": Counter(
                (customer, every[customer], told, RATES * (self.files - 1 - file_of[customer]))
                for customer in every
            ),
            "checked": checked + Counter({(-1, len(self.orders)): 1}),
            "announced": Counter((row[1],) for row in matched),
            "joined": Counter(
                (i, paid_for, max(at, paid_at))
                for c, i, _, at in self.orders
                for payer, paid_for, paid_at in self.payments
                if c == payer and -20 <= paid_at - at < 40
            ),
            "large": Counter(row for row in self.orders if row[2] > 6),
            "spent": self.of_methods()["spent"],
        }

    def of_methods(self) -> dict[str, Counter[tuple[Any, ...]]]:
        """The same of the methods that keep or count what a customer had so far, and of those that change rows."""
        so_far: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        found: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
        for order in sorted(self.orders, key=lambda row: row[1]):
            customer, number, amount, _ = order
            so_far[customer].append(order)
            amounts = [row[2] for row in so_far[customer]]
            latest = max(row[3] for row in so_far[customer])
            _, first, _, at = so_far[customer][0]
            found["spent"][customer, first, sum(amounts), at] += 1
            found["together"][customer, first, sum(amounts), latest] += 1
            found["least"][customer, first, min(amounts), at] += 1
            found["latest"][customer, first, amounts[0], latest] += 1
            found["halved"][number, amount // 2] += 1
            found["pieces"].update((number, piece) for piece in range(amount % 3))
        return found


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last rows of all slots as one."""
    counts = [row["known"] for row in rows if row["id"] == -1]
    assert all(counts), "a slot had no rows: those without keys go to all slots in turn"
    return [row for row in rows if row["id"] != -1] + [{"id": -1, "known": sum(counts)}]


def whatever_the_epochs(name: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without what depends on which files of the three sources came in one epoch."""
    if name == "checked":
        return row if row[0] == -1 else row[:1]
    return row[:3] if name == "priced" else row


def check(
    output: Path,
    expected: dict[str, Counter[tuple[Any, ...]]],
    *others: Path,
    row_of: Callable[[str, tuple[Any, ...]], tuple[Any, ...]] = lambda _, row: row,
) -> None:
    """The rows of all sinks are these, as far as ``row_of`` leaves them."""
    for name, exact in expected.items():
        wanted = Counter(row_of(name, row) for row in exact.elements())
        rows = [row for folder in (output, *others) for row in totals.read(folder / name)]
        got = Counter(
            row_of(name, tuple(row.values())) for row in (summed(rows) if name == "checked" else rows)
        )
        assert got == wanted, (
            f"{name}: missing {list((wanted - got).items())[:3]}, too many {list((got - wanted).items())[:3]}"
        )


KILLS = {
    "hashmap": (
        Kill("slot", ProcessPhase.FEED),
        Kill("slot", ProcessPhase.FINISH),
        Kill("slot", ProcessPhase.COMMIT),
        Kill("driver", ProcessPhase.CHECKPOINT_COMMIT),
    ),
    "rocksdb": (
        Kill("worker", ProcessPhase.FEED),
        Kill("slot", ProcessPhase.FINISH),
        Kill("driver", ProcessPhase.CHECKPOINT_COMMIT),
    ),
}
EXPECTED: Mapping[Victim, str] = {
    "slot": "rows of both inputs, broadcast state and operator state go back to the last checkpoint; output exact",
    "worker": "what the dead one fed of either input never becomes state; output exact",
    "driver": "the next attempt goes on with all inputs, broadcast state and operator state; output exact",
}
a_life = functools.partial(lives.a_life, expected=EXPECTED, of=" of a job with two inputs and broadcast rows")
SAMPLES = [
    a_life("hashmap", "sample", KILLS["hashmap"], pytest.mark.extra),
    a_life("rocksdb", "sample", KILLS["rocksdb"]),
]


@pytest.mark.parametrize(("backend", "kills"), SAMPLES)
def test_processes_that_are_killed_lose_and_repeat_nothing_of_both_inputs(
    tmp_path: Path, backend: str, kills: tuple[Kill, ...]
) -> None:
    given = Input(tmp_path / "in")
    given.write(8)
    given.close()
    document = driving.manifest(tmp_path, "two_inputs.py", stateBackend={"type": backend})
    with driving.Driver(tmp_path, document) as driver:
        for kill in kills:
            driver.kill_in(kill.holder, kill.phase)
        assert driver.wait() != 0
    with driving.Driver(tmp_path, document, attempt=2) as driver:
        driver.finish()
    check(tmp_path / "out", given.expected())


class Arriving(lives.Input):
    """Files of all three sources, a few ahead of what was read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.given = Input(folder)

    def ahead_of(self, epoch: int) -> None:
        missing = epoch + 4 - self.given.files
        if missing > 0:
            self.given.write(missing, ROWS)

    def end(self) -> None:
        self.given.close()


class Life(lives.Life):
    """The life of the job with two inputs. Which files come in one epoch is not known."""

    job = "two_inputs.py"

    def _make_input(self, folder: Path) -> Arriving:
        return Arriving(folder)

    def _compare(self, output: Path) -> None:
        assert isinstance(self._input, Arriving)
        check(output, self._input.given.expected(), row_of=whatever_the_epochs)


FULL = [
    a_life(backend, name, every_kill(tuple(chosen)), pytest.mark.extra, pytest.mark.timeout(1800))
    for backend in ("hashmap", "rocksdb")
    for name, chosen in (
        ("epoch", EPOCH_PHASES),
        ("checkpoint", CHECKPOINT_PHASES),
        ("restore", lives.RESTORES),
    )
]


@pytest.mark.parametrize(("backend", "kills"), FULL)
def test_processes_killed_in_every_phase_lose_and_repeat_nothing_of_both_inputs(
    tmp_path: Path, backend: str, kills: tuple[Kill, ...]
) -> None:
    Life(tmp_path, backend).run(kills)


def test_a_savepoint_goes_on_with_other_slots_and_the_other_backend(tmp_path: Path) -> None:
    given = Input(tmp_path / "in")
    given.write(4)
    params = {"methods": "all"}
    document = driving.manifest(tmp_path, "two_inputs.py", trigger={"processingTime": "100ms"}, params=params)
    with driving.Driver(tmp_path, document) as first, first.client() as client:
        driving.wait_for(lambda: client.status().rows_total > 0, driving.PATIENCE_S, "rows", first.process)
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="half-way", stop=True))
        first.finish()
    saved = first.end()["savepoint"]["location"]
    given.write(4)
    given.close()
    copy = driving.manifest(
        tmp_path,
        "two_inputs.py",
        name="copy",
        slots=3,
        stateBackend={"type": "rocksdb"},
        restoreFrom={"uri": saved},
        params={**params, "output": str(tmp_path / "copy")},
    )
    with driving.Driver(tmp_path / "second", copy) as second:
        second.finish()
    check(tmp_path / "out", given.expected() | given.of_methods(), tmp_path / "copy")


@pytest.mark.extra
def test_rejected_rows_of_each_stream_go_to_a_side_output_of_their_own(tmp_path: Path) -> None:
    files = {
        "first": [{"k": "a", "v": 1}, {"k": "a", "v": -1}, {"k": "b", "v": 9}],
        "second": [{"name": "a", "w": -5}, {"name": "a", "w": 5}],
        "limits": [{"name": "all", "w": 4}],
    }
    for name, rows in files.items():
        folder = tmp_path / "in" / name
        folder.mkdir(parents=True)
        (folder / "0.json").write_text("\n".join(map(json.dumps, rows)))
    document = driving.manifest(tmp_path, "rejected_rows.py")
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()

    def read(name: str, *fields: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row[field] for field in fields) for row in totals.read(tmp_path / "out" / name))

    assert read("counted", "k", "n") == [("a", 1), ("a", 2), ("b", 1)]
    assert read("errors1", "k", "v") == [("a", -1)]
    assert read("errors2", "name", "w") == [("a", -5)]
    assert read("below", "k", "v") == [("a", -1), ("a", 1)]
    assert read("errors", "k", "v") == [("b", 9)]
    assert "above the limit" in read("errors", "error")[0][0]
