"""The *premises* of an operator: facts beside types on which the meaning of its state depends, as names and texts.

The slices of a window fit one size and no other, and no type tells them apart. So a snapshot keeps the premises of each
operator, and a restore compares them with those that the job declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sparkstate import errors

Premises: TypeAlias = Mapping[str, str]
"""Of one operator: by the name of a field the value that its state was built on."""


@dataclass(frozen=True)
class Change:
    """A field of an operator that is no longer what its state was built on, and so refuses a restore."""

    uid: str
    field: str
    before: str
    now: str
    harm: str = "with that state its results would be wrong"
    remedy: str = "Declare it as it was"

    def message(self, where: str) -> str:
        """The refusal in words; ``where`` names the snapshot."""
        return (
            f"{where} has state of operator {self.uid!r} whose {self.field} was {self.before} and is now {self.now}; "
            f"{self.harm}. {self.remedy}, or give the operator another uid and set allowNonRestoredState: true, which "
            "drops that state"
        )


def changes(uid: str, stored: Premises | None, declared: Premises) -> Iterator[Change]:
    """The differences. There are none where ``stored`` is None, as of snapshots of older versions. An operator whose
    state was built on no premises had a function of another kind than one that has some."""
    if stored is None:
        return
    if declared and not stored:
        of_now = ", ".join(f"{name}: {value}" for name, value in declared.items())
        yield Change(uid, "function", "one of another kind", f"one with {of_now}")
        return
    for name in [*stored, *(name for name in declared if name not in stored)]:
        before, now = stored.get(name, "none"), declared.get(name, "none")
        if before != now:
            yield Change(uid, name, before, now)


def check(uid: str, stored: Premises | None, declared: Premises, where: str) -> None:
    """Raise ``StateMigrationError`` for the first change. ``where`` names the snapshot."""
    for change in changes(uid, stored, declared):
        raise errors.StateMigrationError(change.message(where))
