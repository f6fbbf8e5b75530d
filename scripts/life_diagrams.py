"""The lives of a job, a snapshot and a driver, from the tables in the code to ``docs/operator.md``.

Each life is a Mermaid diagram, followed by a table. The table also shows two things that the diagram leaves
out: phases that a cause does not change, and transitions from a status that is older than its job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparkstate.control import driver_life
from sparkstate_operator.core import job_life, snapshot_life
from sparkstate_operator.core.transitions import NEW, Cause

PAGE = "operator.md"


@dataclass(frozen=True)
class Row:
    """One line of a table, whoever it belongs to."""

    who: str
    when: str
    to: str
    ends: frozenset[str]
    stale: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Life:
    """``group``: phases that are drawn as one box, with its title, where arrows leave all of them."""

    name: str
    rows: Sequence[Row]
    title: str = ""
    group: Sequence[str] = ()

    @property
    def phases(self) -> list[str]:
        """In the order in which the table comes to them."""
        return list(dict.fromkeys([*self.group, *(row.to for row in self.rows)]))


def _of_cause(cause: Cause) -> Row:
    return Row(cause.who.value, cause.when, cause.to, cause.ends, cause.stale, cause.keeps)


def _of_driver(row: driver_life.Transition) -> Row:
    ends, keeps = (frozenset(phase.value for phase in phases) for phases in (row.ends, row.keeps))
    return Row(row.who, row.when, row.to.value, ends, keeps=keeps)


LIVES = (
    Life("job", [_of_cause(cause) for cause in job_life.TABLE], "an attempt", job_life.ATTEMPT),
    Life("snapshot", [_of_cause(cause) for cause in snapshot_life.TABLE]),
    Life(
        "driver",
        [
            Row("operator", "the process starts", driver_life.BEGIN.value, frozenset({NEW})),
            *(_of_driver(row) for row in driver_life.TABLE),
        ],
        "alive",
        [phase.value for phase in driver_life.ALIVE],
    ),
)


def with_lives(page: str) -> str:
    """The page, its blocks as the code says now. Raises ValueError where a block is missing."""
    for life in LIVES:
        begin, end = f"<!-- life of a {life.name} -->", f"<!-- end of a {life.name} -->"
        block = f"{begin}\n{render(life)}{end}"
        page, found = re.subn(f"{begin}.*?{end}", lambda _, block=block: block, page, flags=re.DOTALL)
        if found != 1:
            raise ValueError(
                f"docs/{PAGE} has {found} blocks of a {life.name}; it needs one: {begin} … {end}"
            )
    return page


def render(life: Life) -> str:
    """Diagram and table."""
    return f"```mermaid\n{diagram(life)}```\n\n{table(life)}"


def diagram(life: Life) -> str:
    """Arrows with the same ends are one, with all their causes."""
    lines = ["stateDiagram-v2"]
    box = life.title.replace(" ", "_")
    if life.group:
        inner = [f"        {phase}" for phase in life.group]
        lines += [f'    state "{life.title}" as {box} {{', *inner, "    }"]
    causes: dict[tuple[str, str], list[str]] = {}
    for row in life.rows:
        for before in _drawn(life, row, box):
            causes.setdefault((before, row.to), []).append(row.when)
    for (before, after), told in causes.items():
        lines.append(f"    {before} --> {after}: {'<br/>or '.join(told)}")
    for row in life.rows:
        if _is_from_everywhere(life, row):
            # Mermaid 11 draws no note beside a state that nothing has named before.
            lines += [f"    {row.to}", f"    note right of {row.to}: from every phase when {row.when}"]
    return "\n".join(lines) + "\n"


def _drawn(life: Life, row: Row, box: str) -> Iterator[str]:
    """Where the arrows of a row begin."""
    if _is_from_everywhere(life, row):
        return
    if NEW in row.ends:
        yield "[*]"
    together = bool(life.group) and set(life.group) <= row.ends
    if together:
        yield box
    yield from (
        phase for phase in life.phases if phase in row.ends and not (together and phase in life.group)
    )


def _is_from_everywhere(life: Life, row: Row) -> bool:
    return {*life.phases, NEW} - {row.to} <= row.ends


def table(life: Life) -> str:
    """One line for each cause."""
    lines = ["| what happens | by | from | to |", "|---|---|---|---|"]
    for row in life.rows:
        ends = "every other" if _is_from_everywhere(life, row) else _list(life, row.ends)
        if row.stale:
            ends += f"; if the status is older than the job: {_list(life, row.stale)}"
        stays = f"; {_list(life, row.keeps)} unchanged" if row.keeps else ""
        lines.append(f"| {row.when} | {row.who} | {ends} | `{row.to}`{stays} |")
    return "\n".join(lines) + "\n"


def _list(life: Life, phases: Iterable[str]) -> str:
    named = [f"`{phase}`" for phase in life.phases if phase in set(phases)]
    return ", ".join([*(["new"] if NEW in set(phases) else []), *named])
