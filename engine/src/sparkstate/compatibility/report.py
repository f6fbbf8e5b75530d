"""The report of ``sparkstate check`` (docs/formats.md): what would happen to every state if the job started now.

Fields are only ever added. Types are the stable descriptions of ``serde.types``.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sparkstate.cut_text import cut

EXIT_REFUSED: Final = 3
"""As of ``StateMigrationError`` and ``RestoreBlocked``, with which the job would end."""
_TOLD_CHARACTERS: Final = 1500
"""Of the refusals in a pod's termination message, which has room for 4096 bytes."""


class Outcome(enum.StrEnum):
    """The fate of a state."""

    AS_IT_IS = "as-it-is"
    """Taken up; the bytes stay as they are."""
    ON_READ = "on-read"
    """Taken up; each value is converted when it is read."""
    FULL_PASS = "full-pass"
    """Taken up after a pass over all its values."""
    NEW = "new"
    """Not stored: it begins empty."""
    NOT_DECLARED = "not-declared"
    """Stored, and not declared by its operator's ``open``: kept in the storage, and read by nobody."""
    DROPPED = "dropped"
    """Stored, and the job has no such operator; ``allowNonRestoredState`` says that it may go."""
    REFUSED = "refused"
    """The job would not start."""


@dataclass(frozen=True, kw_only=True)
class StateFinding:
    """One state of one operator. ``field`` names what differs; ``stored`` and ``declared`` are its two descriptions,
    None where there is none on that side."""

    operator: str
    state: str
    kind: str
    outcome: Outcome
    field: str | None = None
    stored: str | None = None
    declared: str | None = None
    message: str | None = None
    """A sentence for people, with the remedy where something has to be done."""


@dataclass(frozen=True, kw_only=True)
class JobFinding:
    """Something about the whole job that differs from the snapshot: a field of the spec, or an operator."""

    field: str
    stored: str
    declared: str
    refused: bool
    message: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings about one job and one snapshot. ``url`` is None where nothing would be restored."""

    job: str
    url: str | None
    kind: str | None
    id: int | None
    epoch: int | None
    found: str
    """The sentence with which a restore would begin."""
    states: tuple[StateFinding, ...]
    differences: tuple[JobFinding, ...] = ()
    notices: tuple[str, ...] = field(default=())

    @property
    def refusals(self) -> tuple[StateFinding | JobFinding, ...]:
        """The findings that would keep the job from starting."""
        return (
            *(one for one in self.differences if one.refused),
            *(one for one in self.states if one.outcome is Outcome.REFUSED),
        )

    @property
    def compatible(self) -> bool:
        """Whether the job would take up everything that it has to."""
        return not self.refusals

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        counts = Counter(one.outcome.value for one in self.states)
        return {
            "compatible": self.compatible,
            **{name: found[name] for name in ("job", "url", "kind", "id", "epoch", "found")},
            "counts": {outcome.value: counts[outcome.value] for outcome in Outcome},
            "message": self.told(),
            "states": list(found["states"]),
            "differences": list(found["differences"]),
            "notices": list(self.notices),
        }

    def told(self) -> str:
        """The refusals in sentences, the first of them where there are many; empty if there is none."""
        told = ""
        for number, one in enumerate(self.refusals):
            sentence = str(one.message)
            if told and len(told) + len(sentence) > _TOLD_CHARACTERS:
                return f"{told}; and {len(self.refusals) - number} more"
            told = f"{told}; {sentence}" if told else cut(sentence, _TOLD_CHARACTERS)
        return told


def shortened(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document for a pod's termination message: without the lists, which may be long."""
    return {
        name: value for name, value in document.items() if name not in ("states", "differences", "notices")
    }
