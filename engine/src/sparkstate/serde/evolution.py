"""Whether state that was stored with one type can be read with another, and how: the rules of schema evolution.

Pure: two declarations in, a :class:`Verdict` out. ``compare`` is asked by stores when an operator declares its state,
and by ``sparkstate check`` before an upgrade. ``type_changes`` has the rules for types, and
``evolution_table`` shows them as a table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sparkstate import durations
from sparkstate.serde import enum_changes, expiring, type_changes, types
from sparkstate.serde.migration import Plan
from sparkstate.serde.typeinfo import TypeInformation


class VerdictKind(enum.StrEnum):
    """The fates of stored state."""

    AS_IS = "as it is"
    """The stored bytes are read as they are."""
    ON_READ = "migrated when read"
    """A value is migrated each time it is read, until the job writes it anew. The start costs nothing."""
    FULL_PASS = "after a full pass"
    """The restore goes over all values of the state before the job begins."""
    REFUSED = "refused"
    """The job cannot take this state up, and does not start."""


class Declaration(Protocol):
    """Identity and types of one state: ``backends.base.TableSpec``, or :class:`StateTypes`."""

    @property
    def uid(self) -> str:
        """The operator."""

    @property
    def name(self) -> str:
        """The name within the operator."""

    @property
    def kind(self) -> str:
        """``value``, ``list``, …"""

    @property
    def key_type(self) -> TypeInformation | None:
        """Of the stream's keys; None for operator state."""

    @property
    def value_type(self) -> TypeInformation | None:
        """Of the stored values; None for timers."""

    @property
    def user_key_type(self) -> TypeInformation | None:
        """Of the keys of a map; None for other kinds."""

    @property
    def namespace_type(self) -> TypeInformation | None:
        """None where namespaces tell their own types."""


@dataclass(frozen=True)
class StateTypes:
    """A :class:`Declaration` of plain data."""

    uid: str
    name: str
    kind: str
    key_type: TypeInformation | None = None
    value_type: TypeInformation | None = None
    user_key_type: TypeInformation | None = None
    namespace_type: TypeInformation | None = None

    @classmethod
    def parse(
        cls,
        uid: str,
        name: str,
        kind: str,
        key_type: str = "",
        value_type: str = "",
        user_key_type: str = "",
        namespace_type: str = "",
    ) -> StateTypes:
        """From stable descriptions, as ``handles.StateMeta`` has them; empty: none. Raises ``CorruptData`` for a
        description that this version cannot read."""
        given = (key_type, value_type, user_key_type, namespace_type)
        return cls(uid, name, kind, *(types.parse(text) if text else None for text in given))


@dataclass(frozen=True)
class Verdict:
    """The answer for one state."""

    kind: VerdictKind
    uid: str
    state: str
    part: str = ""
    """Refused: the part that differs: ``kind``, ``key type``, ``value type``, ``user key type``, ``namespace type``."""
    field: str = ""
    """Refused for a part within the value: its path."""
    before: str = ""
    now: str = ""
    """Refused: both types of ``field``, or of ``part`` where there is no field; else those of the whole value."""
    remedy: str = ""
    changes: tuple[str, ...] = ()
    """The fate of each changed field, in words."""
    plan: Plan | None = None
    """How stored values become values of the new type; None: they are so already, or are refused."""

    @property
    def is_refused(self) -> bool:
        """Whether the state cannot be taken up."""
        return self.kind is VerdictKind.REFUSED

    @property
    def message(self) -> str:
        """The error of a refusal, otherwise a line about what happens."""
        head = f"state {self.state!r} of operator {self.uid!r}: "
        if not self.is_refused:
            return head + "; ".join((self.kind.value, *self.changes))
        where = f", at {self.field}," if self.field else ""
        return (
            f"{head}its {self.part}{where} was {self.before or 'none'} when it was stored and is now "
            f"{self.now or 'none'}; {self.remedy}"
        )


KEEPS_LIVES: Final = (
    "this backend does not change a time-to-live; restore into hashmap, rocksdb, or a backend whose stores derive from "
    "RowStore"
)
"""The remedy where a store cannot adopt a time-to-live."""
AS_BEFORE: Final = "declare it as it was, or give the new state another name"
TIMERS_AS_BEFORE: Final = "key the stream as it was, or give the operator another uid"
"""The remedy for timers, which have no name of the job's."""


def compare(stored: Declaration, declared: Declaration, *, reads_all: bool = False) -> Verdict:
    """The verdict on state that was stored as ``stored`` and is declared as ``declared``.

    A changed time-to-live is not refused: a store adopts it before the types are compared there
    (``backends.expiring``). ``reads_all``: the restore reads every value anyway (HashMap, backends of one's own, and
    operator state on any backend), so a migration is a full pass there; otherwise (RocksDB) values are migrated when
    they are read.
    """
    of_keys: list[str] = []
    for part in ("kind", "key_type", "user_key_type", "namespace_type"):
        before, now = getattr(stored, part), getattr(declared, part)
        if before != now:
            what, shown = part.replace("_", " "), (_shown(before), _shown(now))
            why = enum_changes.refused_keys(before, now)
            if why is not None:
                # Of all kinds of state, timers alone have no values.
                remedy = AS_BEFORE if declared.value_type is not None else TIMERS_AS_BEFORE
                return _refused(declared, what, "", *shown, f"{why}{remedy}")
            of_keys.append(f"the {what} was {shown[0]} and is now {shown[1]}")
    return _of_values(stored.value_type, declared, tuple(of_keys), reads_all)


def _of_values(
    before: TypeInformation | None, declared: Declaration, of_keys: tuple[str, ...], reads_all: bool
) -> Verdict:
    now = declared.value_type
    shown = {"before": _shown(before), "now": _shown(now)}
    if before is None or now is None:
        if before is now:
            return Verdict(VerdictKind.AS_IS, declared.uid, declared.name, changes=of_keys)
        return _refused(declared, "value type", "", remedy=AS_BEFORE, **shown)
    resolved = type_changes.resolve(expiring.value_type_of(before), expiring.value_type_of(now))
    if isinstance(resolved, type_changes.TypeRefusal):
        remedy = f"{resolved.remedy}{AS_BEFORE}"
        return _refused(declared, "value type", resolved.path, resolved.before, resolved.now, remedy)
    kind = VerdictKind.FULL_PASS if reads_all else VerdictKind.ON_READ
    if resolved.plan is None:
        kind = VerdictKind.AS_IS
    lives = expiring.ttl_of(before), expiring.ttl_of(now)
    changes = (*of_keys, *resolved.changes)
    if lives[0] != lives[1]:
        changes = (*changes, f"the time-to-live was {_life(lives[0])} and is now {_life(lives[1])}")
        if expiring.rewrites(*lives):
            kind = VerdictKind.FULL_PASS
    return Verdict(kind, declared.uid, declared.name, changes=changes, plan=resolved.plan, **shown)


def _life(ttl: expiring.TimeToLive | None) -> str:
    if ttl is None:
        return "none"
    return f"{durations.text(ttl.length_ms)} of {'event' if ttl.in_event_time else 'processing'} time"


def _refused(declared: Declaration, part: str, path: str, before: str, now: str, remedy: str) -> Verdict:
    return Verdict(VerdictKind.REFUSED, declared.uid, declared.name, part, path, before, now, remedy)


def _shown(given: Any) -> str:
    return given.describe() if isinstance(given, TypeInformation) else str(given or "")
