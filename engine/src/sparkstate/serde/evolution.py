"""Whether state that was stored with one type can be read with another, and how: the rules of schema evolution.

Pure: two declarations in, a :class:`Verdict` out. ``compare`` is asked by stores when an operator declares its state,
and by ``sparkstate check`` before an upgrade. docs/schema-evolution.md shows :data:`RULES`, each with its verdict.

Fields of a named row are found by name, then by alias. Fields of a row without names, and of a tuple, are found by
place. A path names the part of a value that a message is about: ``address.city``, ``items[].price`` (of each element),
``scores{}`` (of each map value), ``[2]`` (a field without a name).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sparkstate.serde import containers, scalars, types
from sparkstate.serde.migration import Cast, Elements, Entries, FieldPlan, Fields, Plan
from sparkstate.serde.typeinfo import TypeInformation, pack_bytes


class VerdictKind(enum.StrEnum):
    """What becomes of stored state."""

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
    def uid(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def key_type(self) -> TypeInformation | None: ...

    @property
    def value_type(self) -> TypeInformation | None: ...

    @property
    def user_key_type(self) -> TypeInformation | None: ...

    @property
    def namespace_type(self) -> TypeInformation | None: ...


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
    """What becomes of each changed field, in words."""
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


AS_BEFORE: Final = "declare it as it was, or give the new state another name"


def compare(stored: Declaration, declared: Declaration, *, reads_all: bool = False) -> Verdict:
    """The verdict on state that was stored as ``stored`` and is declared as ``declared``.

    ``reads_all``: the restore reads every value anyway (HashMap, and operator state on any backend), so a migration is
    a full pass there; otherwise (RocksDB) values are migrated when they are read.
    """
    for part in ("kind", "key_type", "user_key_type", "namespace_type"):
        before, now = getattr(stored, part), getattr(declared, part)
        if before != now:
            return _refused(declared, part.replace("_", " "), "", _shown(before), _shown(now), AS_BEFORE)
    before, now = stored.value_type, declared.value_type
    shown = {"before": _shown(before), "now": _shown(now)}
    if before is None or now is None:
        if before is now:
            return Verdict(VerdictKind.AS_IS, declared.uid, declared.name)
        return _refused(declared, "value type", "", remedy=AS_BEFORE, **shown)
    try:
        resolved = resolve(before, now)
    except TypeRefusal as refusal:
        return _refused(
            declared, "value type", refusal.path, refusal.before, refusal.now, f"{refusal.remedy}{AS_BEFORE}"
        )
    kind = VerdictKind.FULL_PASS if reads_all else VerdictKind.ON_READ
    if resolved.plan is None:
        kind = VerdictKind.AS_IS
    return Verdict(kind, declared.uid, declared.name, changes=resolved.changes, plan=resolved.plan, **shown)


def _refused(declared: Declaration, part: str, path: str, before: str, now: str, remedy: str) -> Verdict:
    return Verdict(VerdictKind.REFUSED, declared.uid, declared.name, part, path, before, now, remedy)


def _shown(given: Any) -> str:
    return given.describe() if isinstance(given, TypeInformation) else str(given or "")


class TypeRefusal(Exception):
    """A type cannot become another. ``remedy`` is empty or ends with ``; ``."""

    def __init__(self, path: str, before: str, now: str, remedy: str = "") -> None:
        super().__init__(path, before, now, remedy)
        self.path, self.before, self.now, self.remedy = path, before, now, remedy


@dataclass(frozen=True)
class Resolved:
    """How values of one type become values of another."""

    plan: Plan | None
    changes: tuple[str, ...]


def resolve(before: TypeInformation, now: TypeInformation) -> Resolved:
    """The plan from one type to another. Raises :class:`TypeRefusal` with the path and both types."""
    walk = _Walk()
    return Resolved(walk.plan("", before, now), tuple(walk.changes))


_WHOLE: Final = ("BYTE", "SHORT", "INT", "LONG")
_TO_FLOAT: Final = ("BYTE", "SHORT", "INT")
"""A float has 53 bits for a whole number, so it cannot hold every LONG."""
WIDENINGS: Final[dict[tuple[str, str], Cast | None]] = {
    **{(a, b): None for at, a in enumerate(_WHOLE) for b in _WHOLE[at + 1 :]},
    **{(a, b): Cast("float") for a in _TO_FLOAT for b in ("FLOAT", "DOUBLE")},
    **{(a, b): Cast("digits") for a in _WHOLE for b in ("BIG_INT", "BIG_DEC")},
    ("FLOAT", "DOUBLE"): None,
    ("BIG_INT", "BIG_DEC"): None,
    ("CHAR", "STRING"): None,
    ("SQL_DATE", "SQL_TIMESTAMP"): Cast("midnight"),
}
"""Single types that can become wider; None: the bytes are the same."""
_NULLABLE: Final = ("BASIC_ARRAY", "OBJECT_ARRAY")


@dataclass
class _Walk:
    """Goes down two types side by side."""

    changes: list[str] = field(default_factory=list)

    def plan(self, path: str, before: TypeInformation, now: TypeInformation) -> Plan | None:
        if before == now:
            return None
        if isinstance(before, scalars.ScalarType) and isinstance(now, scalars.ScalarType):
            return self._widening(path, before, now)
        if isinstance(before, containers.ListType) and isinstance(now, containers.ListType):
            return self._elements(path, before, now)
        if isinstance(before, containers.MapType) and isinstance(now, containers.MapType):
            return self._entries(path, before, now)
        if isinstance(before, containers.TupleType) and isinstance(now, containers.TupleType):
            if len(before.fields) == len(now.fields):
                return self._places(path, before, now)
            raise self._no(path, before, now, "a tuple keeps its number of fields; ")
        if isinstance(now, containers.RowType):
            return self._row(path, before, now)
        raise self._no(path, before, now)

    def _no(self, path: str, before: TypeInformation, now: TypeInformation, remedy: str = "") -> TypeRefusal:
        return TypeRefusal(path, before.describe(), now.describe(), remedy)

    def _widening(self, path: str, before: TypeInformation, now: TypeInformation) -> Plan | None:
        pair = (before.describe(), now.describe())
        if pair not in WIDENINGS:
            why = "this would lose information; " if pair[::-1] in WIDENINGS else ""
            raise self._no(path, before, now, why)
        self._say(path, f"{pair[0]} becomes {pair[1]}")
        return WIDENINGS[pair]

    def _elements(self, path: str, before: containers.ListType, now: containers.ListType) -> Plan | None:
        if before.name in _NULLABLE and now.name not in _NULLABLE:
            raise self._no(path, before, now, "the new type has no place for elements that are null; ")
        if before.name != now.name:
            self._say(path, f"{before.name} becomes {now.name}")
        plan = self.plan(f"{path}[]", before.element, now.element)
        return None if plan is None else Elements(plan)

    def _entries(self, path: str, before: containers.MapType, now: containers.MapType) -> Plan | None:
        if before.key != now.key:
            raise self._no(f"{path}{{}} (key)", before.key, now.key, "the keys of a map keep their type; ")
        plan = self.plan(f"{path}{{}}", before.value, now.value)
        return None if plan is None else Entries(plan)

    def _row(self, path: str, before: TypeInformation, now: containers.RowType) -> Plan | None:
        if isinstance(before, containers.RowType) and before.names is not None:
            if now.names is None:
                raise self._no(path, before, now, "a row that has names keeps names; ")
            return self._named(path, before, before.names, now, now.names)
        if not isinstance(before, (containers.RowType, containers.TupleType)):
            raise self._no(path, before, now)
        if len(now.fields) < len(before.fields):
            raise self._no(
                path, before, now, "name the fields in one upgrade, and drop some of them in a later one; "
            )
        return self._places(path, before, now)

    def _places(
        self,
        path: str,
        before: containers.RowType | containers.TupleType,
        now: containers.RowType | containers.TupleType,
    ) -> Plan | None:
        """Fields by place; a row may have more of them than before, at its end."""
        names = now.names if isinstance(now, containers.RowType) else None
        fields = []
        for place, new in enumerate(now.fields):
            name = f"[{place}]" if names is None else names[place]
            if place < len(before.fields):
                fields.append(FieldPlan(place, self.plan(_at(path, name), before.fields[place], new)))
            else:
                assert isinstance(now, containers.RowType)
                fields.append(self._added(_at(path, name), now, place))
        if names is not None and getattr(before, "names", None) is None:
            self._say(path, "its fields get names, by place")
        return _unless_same(fields, len(before.fields))

    def _named(
        self,
        path: str,
        before: containers.RowType,
        old: tuple[str, ...],
        now: containers.RowType,
        new: tuple[str, ...],
    ) -> Plan | None:
        sources = [self._source(path, before, old, now, name) for name in new]
        self._check_gone(path, before, old, now, new, sources)
        fields = []
        for place, (name, source) in enumerate(zip(new, sources, strict=True)):
            if source < 0:
                fields.append(self._added(_at(path, name), now, place))
                continue
            if old[source] != name:
                self._say(_at(path, name), f"is the renamed {_at(path, old[source])}")
            plan = self.plan(_at(path, name), before.fields[source], now.fields[place])
            fields.append(FieldPlan(source, plan))
        return _unless_same(fields, len(old))

    def _source(
        self,
        path: str,
        before: containers.RowType,
        old: tuple[str, ...],
        now: containers.RowType,
        name: str,
    ) -> int:
        """The place of the old field that is this one; -1: it is new."""
        if name in old:
            return old.index(name)
        found = [alias for alias in now.aliases.get(name, ()) if alias in old]
        if len(found) > 1:
            raise self._no(
                path, before, now, f"{name!r} has the aliases {found}, and the stored row has them all; "
            )
        return old.index(found[0]) if found else -1

    def _check_gone(
        self,
        path: str,
        before: containers.RowType,
        old: tuple[str, ...],
        now: containers.RowType,
        new: tuple[str, ...],
        sources: list[int],
    ) -> None:
        """Fields may be dropped, but a renamed field without its alias must not be taken for a dropped and a new one:
        its values would be lost."""
        gone = [name for place, name in enumerate(old) if place not in sources]
        added = [name for name, source in zip(new, sources, strict=True) if source < 0]
        unsaid = [name for name in gone if name not in now.dropped]
        if unsaid and added:
            raise self._no(
                path,
                before,
                now,
                f"{_listed(unsaid)} is gone and {_listed(added)} is new: if that is a new name, say "
                f"aliases={{{added[0]!r}: {unsaid[0]!r}}}, and if not, say dropped={unsaid!r}, in ROW_NAMED; or ",
            )
        for name in gone:
            self._say(_at(path, name), "is dropped")
        kept = [source for source in sources if source >= 0]
        if kept != sorted(kept):
            self._say(path, "its fields change their order")

    def _added(self, path: str, now: containers.RowType, place: int) -> FieldPlan:
        name = "" if now.names is None else now.names[place]
        if name not in now.defaults:
            self._say(path, "is new, and null in stored values")
            return FieldPlan(-1)
        default = now.defaults[name]
        self._say(path, f"is new, and {default!r} in stored values")
        return FieldPlan(-1, default=pack_bytes(None if default is None else now.fields[place].pack(default)))

    def _say(self, path: str, what: str) -> None:
        self.changes.append(f"{path or 'the value'}: {what}")


def _unless_same(fields: list[FieldPlan], count: int) -> Plan | None:
    """None if every field is where it was, and as it was."""
    if len(fields) == count and all(f.source == at and f.plan is None for at, f in enumerate(fields)):
        return None
    return Fields(tuple(fields))


def _at(path: str, name: str) -> str:
    return f"{path}{name}" if name.startswith("[") or not path else f"{path}.{name}"


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
