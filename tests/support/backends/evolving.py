"""Types that change between two lives of a job, and what the values of before are then: a model without sparkstate.

A version of a type knows itself as ``Types`` and as a strategy for its values. A step leads to the next version, and
says what becomes of each value. Values are plain Python, rows are tuples.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sparkstate.serde.types import TypeInformation, Types

Convert = Callable[[Any], Any]
Draw = Callable[[Any], Any]
_CONSTANTS = ("A", "B", "C", "D", "ENUM", "two words", "ü", 'odd "name"')
_NAMES = ("a", "b", "c", "d", "air time", "ü", "values", "count")

SCALARS: Mapping[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "BYTE": st.integers(-128, 127),
    "SHORT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "LONG": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "CHAR": st.sampled_from("xyü"),
    "STRING": st.sampled_from(["", "x", "two words"]),
    "BIG_INT": st.integers(-(10**30), 10**30),
    "BIG_DEC": st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal(-7), decimal.Decimal("1E+30")]),
    "SQL_DATE": st.dates(),
    "SQL_TIMESTAMP": st.datetimes().map(lambda time: time.replace(fold=0)),
}
WIDER: Mapping[str, Mapping[str, Convert]] = {
    "BYTE": {"SHORT": int, "INT": int, "LONG": int, "DOUBLE": float, "BIG_INT": int},
    "SHORT": {"INT": int, "LONG": int, "FLOAT": float, "BIG_DEC": decimal.Decimal},
    "INT": {"LONG": int, "DOUBLE": float, "BIG_INT": int, "BIG_DEC": decimal.Decimal},
    "LONG": {"BIG_INT": int, "BIG_DEC": decimal.Decimal},
    "BIG_INT": {"BIG_DEC": decimal.Decimal},
    "FLOAT": {"DOUBLE": float},
    "CHAR": {"STRING": str},
    "SQL_DATE": {"SQL_TIMESTAMP": lambda day: datetime.datetime(day.year, day.month, day.day)},
}


@dataclass(frozen=True)
class Scalar:
    """A single value."""

    name: str

    def type(self) -> TypeInformation:
        found: TypeInformation = getattr(Types, self.name)()
        return found

    def values(self) -> st.SearchStrategy[Any]:
        return SCALARS[self.name]

    def step(self, draw: Callable[[Any], Any]) -> tuple[Version, TypeInformation, Convert]:
        options = WIDER.get(self.name, {})
        wider = draw(st.sampled_from([None, *options]))
        if wider is None:
            return self, self.type(), same
        return Scalar(wider), Scalar(wider).type(), options[wider]


@functools.cache
def members(constants: tuple[str, ...]) -> Any:
    """An enum class with these members, the same for the same names."""
    return enum.Enum("Members", list(constants))


@dataclass(frozen=True)
class EnumOf:
    """One of some constants: a member of a class, or its name where there is none."""

    constants: tuple[str, ...]
    has_class: bool

    def type(self) -> TypeInformation:
        return self.declared()

    def declared(self, **said: Any) -> TypeInformation:
        if self.has_class:
            return Types.ENUM(members(self.constants), **said)
        return Types.ENUM(*self.constants, **said)

    def values(self) -> st.SearchStrategy[Any]:
        return st.sampled_from(self.constants).map(self.value)

    def value(self, name: str) -> Any:
        return members(self.constants)[name] if self.has_class else name

    def step(self, draw: Draw, drops: bool = True) -> tuple[Version, TypeInformation, Convert]:
        """Constants go, come, get other names and places, get a class or lose it; or they become text."""
        if draw(st.integers(0, 5)) == 0:
            return Scalar("STRING"), Types.STRING(), name_of
        free = [name for name in _CONSTANTS if name not in self.constants]
        becomes: dict[str, str | None] = {name: name for name in self.constants}
        for name in self.constants:
            change = draw(CHANGES)
            if change == "drop" and drops and sum(new is not None for new in becomes.values()) > 1:
                becomes[name] = None
            elif change == "rename" and free:
                becomes[name] = free.pop()
        kept = [new for new in becomes.values() if new is not None]
        added = draw(st.lists(st.sampled_from(free), unique=True, max_size=2)) if free else []
        after = EnumOf(tuple(draw(st.permutations([*kept, *added]))), draw(st.booleans()))
        dropped = [old for old, new in becomes.items() if new is None]
        default = draw(st.sampled_from(after.constants))
        said: dict[str, Any] = {"dropped": dropped, "default": after.value(default)} if dropped else {}
        said["aliases"] = {new: old for old, new in becomes.items() if new not in (None, old)}
        return after, after.declared(**said), lambda value: after.value(becomes[name_of(value)] or default)


def name_of(constant: Any) -> str:
    """The name of a member; text is a name already."""
    return constant.name if isinstance(constant, enum.Enum) else constant


@dataclass(frozen=True)
class ListOf:
    """A list; ``kind`` is the name of its type."""

    kind: str
    element: Version

    def type(self) -> TypeInformation:
        made: TypeInformation = getattr(Types, self.kind)(self.element.type())
        return made

    def values(self) -> st.SearchStrategy[Any]:
        return st.lists(self.element.values(), max_size=2)

    def step(self, draw: Callable[[Any], Any]) -> tuple[Version, TypeInformation, Convert]:
        element, declared, convert = self.element.step(draw)
        kind = draw(st.sampled_from([self.kind, "OBJECT_ARRAY"]))
        return ListOf(kind, element), getattr(Types, kind)(declared), lambda v: [convert(item) for item in v]


@dataclass(frozen=True)
class MapOf:
    """A dict of texts, or of the constants of an enum."""

    value: Version
    key: EnumOf | None = None

    def type(self) -> TypeInformation:
        return Types.MAP(Types.STRING() if self.key is None else self.key.type(), self.value.type())

    def values(self) -> st.SearchStrategy[Any]:
        keys = st.sampled_from("kl") if self.key is None else self.key.values()
        return st.dictionaries(keys, st.none() | self.value.values(), max_size=2)

    def step(self, draw: Callable[[Any], Any]) -> tuple[Version, TypeInformation, Convert]:
        value, declared, convert = self.value.step(draw)
        key: Version | None
        key, key_type, convert_key = None, Types.STRING(), same
        if self.key is not None:
            key, key_type, convert_key = self.key.step(draw, drops=False)
        return (
            MapOf(value, key if isinstance(key, EnumOf) else None),
            Types.MAP(key_type, declared),
            lambda v: {convert_key(k): None if item is None else convert(item) for k, item in v.items()},
        )


@dataclass(frozen=True)
class RowOf:
    """A row; ``names`` is None where it has none."""

    names: tuple[str, ...] | None
    fields: tuple[Version, ...]

    def type(self) -> TypeInformation:
        kinds = [field.type() for field in self.fields]
        return Types.ROW(kinds) if self.names is None else Types.ROW_NAMED(self.names, kinds)

    def values(self) -> st.SearchStrategy[Any]:
        return st.tuples(*[st.none() | field.values() for field in self.fields])

    def step(self, draw: Callable[[Any], Any]) -> tuple[Version, TypeInformation, Convert]:
        """Names, if it has none; else fields go, come, change their types, names and places."""
        sources: list[int | None] = list(range(len(self.fields)))
        names = list(self.names or _NAMES[: len(self.fields)])
        stepped = [field.step(draw) for field in self.fields]
        dropped: list[str] = []
        aliases: dict[str, str] = {}
        defaults: dict[str, Any] = {}
        if self.names is not None:
            for place, change in enumerate(draw(st.lists(CHANGES, max_size=len(names)))):
                free = [n for n in _NAMES if n not in names and n not in self.names]
                if change == "drop" and len(sources) - len(dropped) > 1:
                    dropped.append(names[place])
                    sources[place] = None
                elif change == "rename" and free:
                    aliases[free[0]], names[place] = names[place], free[0]
        kept: list[tuple[str, int]] = [
            (name, source) for name, source in zip(names, sources, strict=True) if source is not None
        ]
        if self.names is not None:
            kept = draw(st.permutations(kept))
        fields = [stepped[source][0] for _, source in kept]
        kinds = [stepped[source][1] for _, source in kept]
        out_names = [name for name, _ in kept]
        converts: list[Convert] = [taken(source, stepped[source][2]) for _, source in kept]
        for _ in range(draw(st.integers(0, 2))):
            name = next((n for n in _NAMES if n not in [*names, *out_names, *(self.names or ())]), None)
            if name is None:
                break  # the row has all of them
            field: Version = draw(VERSIONS)
            default = draw(st.none() | field.values())
            place = draw(st.integers(0, len(fields))) if self.names is not None else len(fields)
            fields.insert(place, field)
            kinds.insert(place, field.type())
            out_names.insert(place, name)
            converts.insert(place, lambda row, default=default: default)
            if default is not None:
                defaults[name] = default
        declared = Types.ROW_NAMED(out_names, kinds, aliases=aliases, defaults=defaults, dropped=dropped)
        return (
            RowOf(tuple(out_names), tuple(fields)),
            declared,
            lambda row: tuple(convert(row) for convert in converts),
        )


Version = Scalar | EnumOf | ListOf | MapOf | RowOf
CHANGES = st.sampled_from(["keep", "keep", "drop", "rename"])


def same(value: Any) -> Any:
    """A value that stays."""
    return value


def taken(source: int, convert: Convert) -> Convert:
    """A field of the row before, if it is not null."""
    return lambda row: None if row[source] is None else convert(row[source])


def rows(fields: st.SearchStrategy[Version]) -> st.SearchStrategy[Version]:
    """Rows of up to four fields, with names or without."""
    listed = st.lists(fields, min_size=1, max_size=4).map(tuple)
    return st.builds(
        lambda found, named: RowOf(_NAMES[: len(found)] if named else None, found), listed, st.booleans()
    )


ENUMS = st.builds(
    lambda names, has_class: EnumOf(tuple(names), has_class),
    st.lists(st.sampled_from(_CONSTANTS), min_size=1, max_size=4, unique=True),
    st.booleans(),
)
VERSIONS: st.SearchStrategy[Version] = st.recursive(
    st.sampled_from(list(SCALARS)).map(Scalar) | ENUMS,
    lambda inner: (
        rows(inner)
        | st.builds(ListOf, st.sampled_from(["LIST", "OBJECT_ARRAY"]), inner)
        | st.builds(MapOf, inner, st.none() | ENUMS)
    ),
    max_leaves=4,
)
NUMBERS = st.sampled_from(["BYTE", "SHORT", "INT", "LONG", "FLOAT", "BOOLEAN"]).map(Scalar)
"""Types of which values may lie in columns."""


def shown(value: Any) -> Any:
    """A value so that 1 and 1.0 differ, and members of enums and their names; rows are tuples."""
    if isinstance(value, enum.Enum):
        return f"member {value.name}"
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    if isinstance(value, list):
        return list(map(shown, value))
    if isinstance(value, dict):
        return {shown(key) if isinstance(key, enum.Enum) else key: shown(item) for key, item in value.items()}
    return repr(value)


def held(values: Mapping[Any, Any] | Sequence[Any], convert: Convert) -> Any:
    """The content of a list state or map state, converted."""
    if isinstance(values, Mapping):
        return {key: None if value is None else convert(value) for key, value in values.items()}
    return [convert(value) for value in values]
