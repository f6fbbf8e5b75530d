"""How values of one type become values of another: goes down both types side by side, and plans or refuses.

Fields of a named row are found by name, then by alias. Fields of a row without names, and of a tuple, are found by
place. A path names the part of a value that a message is about: ``address.city``, ``items[].price`` (of each element),
``scores{}`` (of each map value), ``[2]`` (a field without a name).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sparkstate.serde import containers, enum_changes, enums, scalars
from sparkstate.serde.migration import Cast, Elements, Entries, FieldPlan, Fields, Plan
from sparkstate.serde.typeinfo import TypeInformation, pack_bytes


@dataclass(frozen=True)
class TypeRefusal:
    """A type cannot become another."""

    path: str
    before: str
    now: str
    remedy: str = ""
    """Empty, or ends with ``; `` or ``or ``."""


@dataclass(frozen=True)
class TypePlan:
    """How values of one type become values of another."""

    plan: Plan | None
    changes: tuple[str, ...]


def resolve(before: TypeInformation, now: TypeInformation) -> TypePlan | TypeRefusal:
    """The plan from one type to another, or the part for which there is none."""
    walk = _Walk()
    try:
        return TypePlan(walk.plan("", before, now), tuple(walk.changes))
    except _Refused as error:
        return error.refusal


class _Refused(Exception):
    def __init__(self, refusal: TypeRefusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


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
        if isinstance(before, enums.EnumType):
            return self._constants(path, before, now).plan
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

    def _no(self, path: str, before: TypeInformation, now: TypeInformation, remedy: str = "") -> _Refused:
        return _Refused(TypeRefusal(path, before.describe(), now.describe(), remedy))

    def _widening(self, path: str, before: TypeInformation, now: TypeInformation) -> Plan | None:
        pair = (before.describe(), now.describe())
        if pair not in WIDENINGS:
            why = "this would lose information; " if pair[::-1] in WIDENINGS else ""
            raise self._no(path, before, now, why)
        self._say(path, f"{pair[0]} becomes {pair[1]}")
        return WIDENINGS[pair]

    def _constants(self, path: str, before: enums.EnumType, now: TypeInformation) -> enum_changes.EnumChange:
        if isinstance(now, enums.EnumType):
            try:
                found = enum_changes.resolve(before, now)
            except enum_changes.ConstantsRefused as error:
                raise self._no(path, before, now, str(error)) from None
            for change in found.changes:
                self._say(path, change)
            return found
        if not enum_changes.is_text(now):
            raise self._no(path, before, now)
        self._say(path, "the enum becomes STRING, the names of its constants")
        return enum_changes.EnumChange(enum_changes.as_text(before), (), keeps_apart=True)

    def _elements(self, path: str, before: containers.ListType, now: containers.ListType) -> Plan | None:
        if before.name in _NULLABLE and now.name not in _NULLABLE:
            raise self._no(path, before, now, "the new type has no place for elements that are null; ")
        if before.name != now.name:
            self._say(path, f"{before.name} becomes {now.name}")
        plan = self.plan(f"{path}[]", before.element, now.element)
        return None if plan is None else Elements(plan)

    def _entries(self, path: str, before: containers.MapType, now: containers.MapType) -> Plan | None:
        keys = self._keys(f"{path}{{}} (key)", before.key, now.key)
        plan = self.plan(f"{path}{{}}", before.value, now.value)
        return None if keys is plan is None else Entries(plan, keys)

    def _keys(self, path: str, before: TypeInformation, now: TypeInformation) -> Plan | None:
        """Only enums may change in a key, and only so that no two keys become one."""
        if before == now:
            return None
        if isinstance(before, containers.TupleType) and isinstance(now, containers.TupleType):
            if len(before.fields) == len(now.fields):
                fields = [
                    FieldPlan(place, self._keys(f"{path}[{place}]", old, new))
                    for place, (old, new) in enumerate(zip(before.fields, now.fields, strict=True))
                ]
                return _unless_same(fields, len(fields))
        elif isinstance(before, enums.EnumType):
            found = self._constants(path, before, now)
            if found.keeps_apart:
                return found.plan
            raise self._no(path, before, now, "two keys of a map would become one; ")
        raise self._no(path, before, now, "the keys of a map keep their type; ")

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
