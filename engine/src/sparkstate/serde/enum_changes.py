"""How the constants of one enum become those of another. Constants are found by name, then by alias.

Values have the numbers of constants, so what counts is whether each old constant keeps its number. Keys of map state
and of broadcast state have the names, so what counts there is whether each old name is still one.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkstate.serde import containers, scalars
from sparkstate.serde.enums import EnumType
from sparkstate.serde.migration import Constants, Names, Plan


class ConstantsRefused(Exception):
    """A constant is gone, and nobody says what becomes of its values. The message is the beginning of a remedy, and
    ends with ``or ``."""


class EnumChange(NamedTuple):
    """The change of one enum."""

    plan: Plan | None
    """None: every constant keeps its number."""
    changes: tuple[str, ...]
    keeps_apart: bool
    """Whether no two constants become one."""


def resolve(before: EnumType, now: EnumType) -> EnumChange:
    """The change from one enum to another. Raises :class:`ConstantsRefused`."""
    found = {name: _found(name, now) for name in before.constants}
    gone = [name for name, new in found.items() if new is None]
    added = [name for name in now.constants if name not in found.values()]
    if gone:
        _check_gone(gone, added, now)
    changes = [f"{old!r} becomes {now.default!r}" for old in gone]
    changes += [f"{new!r} is the renamed {old!r}" for old, new in found.items() if new not in (None, old)]
    if added:
        changes.append(f"{_listed(added)} is new" if len(added) == 1 else f"{_listed(added)} are new")
    targets = [now.default if new is None else new for new in found.values()]
    places = tuple(now.constants.index(str(new)) for new in targets)
    kept = [now.constants.index(new) for new in found.values() if new is not None]
    if kept != sorted(kept):
        changes.append("its constants change their order")
    is_same = places == tuple(range(len(places)))
    return EnumChange(None if is_same else Constants(places), tuple(changes), len(set(places)) == len(places))


def as_text(before: EnumType) -> Plan:
    """The plan from an enum to the names of its constants."""
    return Names(before.constants)


def _found(name: str, now: EnumType) -> str | None:
    """The constant that this one is now; None: it is gone."""
    if name in now.constants:
        return name
    return next((new for new, old in now.aliases.items() if name in old), None)


def _check_gone(gone: list[str], added: list[str], now: EnumType) -> None:
    """As for fields of a row: a renamed constant without its alias must not be taken for a dropped and a new one."""
    unsaid = [name for name in gone if name not in now.dropped]
    if unsaid and added:
        raise ConstantsRefused(
            f"{_listed(unsaid)} is gone and {_listed(added)} is new: if that is a new name, say "
            f"aliases={{{added[0]!r}: {unsaid[0]!r}}}, and if not, say dropped={unsaid!r} and the default= of values "
            "that have it, in ENUM; or "
        )
    if now.default is None:
        raise ConstantsRefused(
            f"{_listed(gone)} is gone: say in ENUM which constant is the default= of values that have it; or "
        )


def refused_keys(before: object, now: object) -> str | None:
    """The reason, as the beginning of a remedy (may be empty), why keys cannot go from one type to another; None: they
    can, and keep their bytes."""
    if before == now:
        return None
    if isinstance(before, EnumType) and isinstance(now, EnumType):
        gone = [name for name in before.constants if name not in now.constants]
        return f"a key is stored by name, and {_listed(gone)} is gone; " if gone else None
    if isinstance(before, EnumType) and is_text(now):
        return None
    if not (isinstance(before, containers.TupleType) and isinstance(now, containers.TupleType)):
        return ""
    if len(before.fields) != len(now.fields):
        return ""
    pairs = zip(before.fields, now.fields, strict=True)
    return next((why for pair in pairs if (why := refused_keys(*pair)) is not None), None)


def is_text(kind: object) -> bool:
    """Whether an enum can become that type."""
    return isinstance(kind, scalars.StringType) and kind.name == "STRING"


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
