"""The *premises* of an operator: facts beside types on which the meaning of its state depends, as names and texts.

The slices of a window fit one size and no other, and no type tells them apart. So a snapshot keeps the premises of each
operator, and a restore compares them with those that the job declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sparkstate import errors

Premises: TypeAlias = Mapping[str, str]
"""Of one operator: by the name of a field the value that its state was built on."""


def check(uid: str, stored: Premises, declared: Premises, where: str) -> None:
    """Raise ``StateMigrationError`` unless both are equal. ``stored`` is empty where the snapshot has none, as those of
    older versions: then there is nothing to compare. ``where`` names the snapshot."""
    if not stored:
        return
    for name in [*stored, *(name for name in declared if name not in stored)]:
        before, now = stored.get(name, "none"), declared.get(name, "none")
        if before != now:
            raise errors.StateMigrationError(
                f"{where} has state of operator {uid!r} whose {name} was {before} and is now {now}; with that state "
                "its results would be wrong. Declare it as it was, or give the operator another uid and set "
                "allowNonRestoredState: true, which drops that state"
            )
