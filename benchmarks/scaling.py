"""The cost of a row by the number of slots on a node: readings of a running job, their difference, the verdict."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FLAT = 1.25
"""CPU per row with more slots is at most so many times that with the fewest."""
_METRIC = re.compile(r"^(\w+) (\S+)$", re.MULTILINE)


class Unusable(RuntimeError):
    """The two readings do not measure what the table says; the message says why and what to do."""


@dataclass(frozen=True)
class Told:
    """Numbers of the driver's metrics, all of one moment."""

    epoch: int
    """The last committed one."""
    rows: int
    """Fed into keyed operators since the driver started."""
    checkpoints: int
    """Completed since the driver started."""
    incarnation: int
    """Another number means that the job was restored in between."""


@dataclass(frozen=True)
class Reading:
    """A running job when an epoch has just been answered."""

    at_s: float
    epoch: int
    """The one that has been answered."""
    cpu_us: Mapping[str, int]
    """CPU time of each pod so far, by its name."""
    told: Told
    """A moment later."""


@dataclass(frozen=True)
class Cost:
    """The costs between two readings. CPU times are in µs per row."""

    rows: int
    seconds: float
    checkpoints: int
    driver: float
    executors: float
    """Of all executors together."""


def newest_epoch(log: str, word: str) -> int | None:
    """The last epoch that a line of the driver's log names after ``word``; None before the first. A line that is still
    being written does not count."""
    found = re.findall(rf"{re.escape(word)}(\d+)\n", log)
    return int(found[-1]) if found else None


def told(text: str) -> Told:
    """The numbers from Prometheus' text. Raises :class:`Unusable` while one is missing, as before the first epoch."""
    found = dict(_METRIC.findall(text))
    wanted = (
        "sparkstate_epoch",
        "sparkstate_rows_total",
        "sparkstate_checkpoints_completed_total",
        "sparkstate_incarnation",
    )
    missing = [name for name in wanted if name not in found]
    if missing:
        raise Unusable(f"the driver's metrics lack {', '.join(missing)}; wait for the first epoch")
    return Told(*(int(float(found[name])) for name in wanted))


def difference(before: Reading, after: Reading, driver: str, rows_per_epoch: int) -> Cost:
    """The costs of the epochs between two readings. Raises :class:`Unusable` if the job was restored, or the
    driver counted other rows than the source makes."""
    epochs = after.epoch - before.epoch
    if epochs < 1:
        raise Unusable(
            f"no epoch was answered between the readings ({before.epoch}, {after.epoch}): wait longer"
        )
    if before.told.incarnation != after.told.incarnation:
        raise Unusable("the job was restored between the readings; see the driver's log")
    counted, committed = after.told.rows - before.told.rows, after.told.epoch - before.told.epoch
    if counted != committed * rows_per_epoch:
        raise Unusable(
            f"the driver counted {counted} rows in {committed} epochs, and the source makes {rows_per_epoch} in each"
        )
    rows = epochs * rows_per_epoch
    used = {pod: (after.cpu_us[pod] - before.cpu_us[pod]) / rows for pod in after.cpu_us}
    return Cost(
        rows=rows,
        seconds=after.at_s - before.at_s,
        checkpoints=after.told.checkpoints - before.told.checkpoints,
        driver=used[driver],
        executors=sum(share for pod, share in used.items() if pod != driver),
    )


def result(backend: str, slots: int, pods: int, rounds: Sequence[Cost]) -> dict[str, Any]:
    """The median of the rounds, and how far the executors' CPU per row lies apart in them."""
    executors = [each.executors for each in rounds]
    middle = statistics.median(executors)
    return {
        "backend": backend,
        "slots": slots,
        "pods": pods,
        "rows": sum(each.rows for each in rounds),
        "rows_per_s": round(statistics.median(each.rows / each.seconds for each in rounds)),
        "checkpoints": sum(each.checkpoints for each in rounds),
        "driver_us_per_row": round(statistics.median(each.driver for each in rounds), 3),
        "executors_us_per_row": round(middle, 3),
        "spread": round((max(executors) - min(executors)) / middle, 3),
    }


def relate(
    results: Sequence[dict[str, Any]], cost: str = "executors_us_per_row", alike: Sequence[str] = ("backend",)
) -> list[dict[str, Any]]:
    """The results, each with its ``cost`` (CPU per row) as a multiple of that with the fewest slots, among results that
    agree in the fields ``alike``."""
    related = []
    for each in results:
        same = (other for other in results if all(other[name] == each[name] for name in alike))
        base = min(same, key=lambda other: int(other["slots"]))
        related.append({**each, "of_fewest": round(each[cost] / base[cost], 3)})
    return related


def flat(related: Sequence[Mapping[str, Any]]) -> bool:
    """Whether CPU per row stays within the bound for every number of slots."""
    return all(each["of_fewest"] <= FLAT for each in related)


def text(related: Sequence[Mapping[str, Any]], cores: int) -> str:
    """The table and the verdict."""
    if not related:
        return "nothing was measured"
    fewest = min(each["slots"] for each in related)
    lines = [
        f"{cores} cores for all pods, Kubernetes and storage; CPU µs per row, and the executors' relative to "
        f"{fewest} slot(s)",
        f"{'':<9}{'slots':>6}{'pods':>6}{'rows':>13}{'rows/s':>10}{'checkpoints':>13}{'driver':>8}{'executors':>11}"
        f"{'sum':>7}{'ratio':>7}",
    ]
    for each in related:
        both = each["driver_us_per_row"] + each["executors_us_per_row"]
        lines.append(
            f"{each['backend']:<9}{each['slots']:>6}{each['pods']:>6}{each['rows']:>13,}{each['rows_per_s']:>10,}"
            f"{each['checkpoints']:>13}{each['driver_us_per_row']:>8.2f}{each['executors_us_per_row']:>11.2f}"
            f"{both:>7.2f}{each['of_fewest']:>7.2f}"
        )
    worst = max(float(each["of_fewest"]) for each in related)
    verdict = "reached" if flat(related) else "MISSED"
    lines.append(
        f"{verdict}: executors take at most {FLAT} times the CPU per row of {fewest} slot(s); the most was {worst:.2f}"
    )
    return "\n".join(lines)
