"""The rules of schema evolution as one table: a change, an example of it, and what ``evolution.compare`` answers.

docs/schema-evolution.md has this table; a test keeps both, and the answers, equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sparkstate.serde import evolution
from sparkstate.serde.types import TypeInformation, Types


class Rule(NamedTuple):
    """A change of a value's type, with an example."""

    change: str
    before: TypeInformation
    now: TypeInformation


def _row(names: str, *kinds: TypeInformation, **evolving: object) -> TypeInformation:
    return Types.ROW_NAMED(names.split(), list(kinds), **evolving)  # type: ignore[arg-type]


_LONG, _INT, _TEXT = Types.LONG(), Types.INT(), Types.STRING()

RULES: Final = (
    Rule("the same type", _LONG, _LONG),
    Rule("a whole number becomes a longer one (`BYTE` → `SHORT` → `INT` → `LONG`)", _INT, _LONG),
    Rule("`FLOAT` becomes `DOUBLE` (both have 64 bits)", Types.FLOAT(), Types.DOUBLE()),
    Rule("`CHAR` becomes `STRING`", Types.CHAR(), _TEXT),
    Rule("`BIG_INT` becomes `BIG_DEC`", Types.BIG_INT(), Types.BIG_DEC()),
    Rule(
        "`LIST` or `PRIMITIVE_ARRAY` becomes any list or array", Types.LIST(_LONG), Types.OBJECT_ARRAY(_LONG)
    ),
    Rule(
        "a row without names, or a tuple, gets names",
        Types.ROW([_TEXT, _LONG]),
        _row("name total", _TEXT, _LONG),
    ),
    Rule("a tuple becomes a row", Types.TUPLE([_TEXT, _LONG]), Types.ROW([_TEXT, _LONG])),
    Rule(
        "a field is renamed, with an alias",
        _row("name amount", _TEXT, _LONG),
        _row("name total", _TEXT, _LONG, aliases={"total": "amount"}),
    ),
    Rule("constants are added at the end of an enum", Types.ENUM("A", "B"), Types.ENUM("A", "B", "C")),
    Rule(
        "a constant is renamed, with an alias",
        Types.ENUM("A", "B"),
        Types.ENUM("A", "C", aliases={"C": "B"}),
    ),
    Rule("`BYTE`, `SHORT` or `INT` becomes `FLOAT` or `DOUBLE`", _INT, Types.DOUBLE()),
    Rule("a whole number becomes `BIG_INT` or `BIG_DEC`", _LONG, Types.BIG_INT()),
    Rule("`SQL_DATE` becomes `SQL_TIMESTAMP` (its midnight)", Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
    Rule(
        "a field is added; it is null in stored rows", _row("name", _TEXT), _row("name total", _TEXT, _LONG)
    ),
    Rule(
        "a field is added, with a default",
        _row("name", _TEXT),
        _row("name total", _TEXT, _LONG, defaults={"total": 0}),
    ),
    Rule("a field is added at the end of a row without names", Types.ROW([_TEXT]), Types.ROW([_TEXT, _LONG])),
    Rule("a field is dropped", _row("name total", _TEXT, _LONG), _row("name", _TEXT)),
    Rule(
        "fields are dropped and others added; the dropped ones are listed",
        _row("name amount", _TEXT, _LONG),
        _row("name total", _TEXT, _LONG, dropped=["amount"]),
    ),
    Rule("fields change their order", _row("name total", _TEXT, _LONG), _row("total name", _LONG, _TEXT)),
    Rule(
        "constants are added elsewhere, or change their order",
        Types.ENUM("A", "B"),
        Types.ENUM("B", "C", "A"),
    ),
    Rule(
        "a constant is dropped, with a default for its values",
        Types.ENUM("A", "B"),
        Types.ENUM("B", default="B"),
    ),
    Rule(
        "constants are dropped and others added; the dropped ones are listed, with a default",
        Types.ENUM("A", "B"),
        Types.ENUM("B", "C", dropped=["A"], default="C"),
    ),
    Rule("an enum becomes `STRING`, the names of its constants", Types.ENUM("A", "B"), _TEXT),
    Rule(
        "any of these within a row, a list, or a map's values",
        Types.LIST(_row("name", _TEXT)),
        Types.LIST(_row("name total", _TEXT, _LONG)),
    ),
    Rule(
        "fields are gone and others new, without a word about them",
        _row("name amount", _TEXT, _LONG),
        _row("name total", _TEXT, _LONG),
    ),
    Rule("a constant is dropped, without a default", Types.ENUM("A", "B"), Types.ENUM("B")),
    Rule(
        "constants are gone and others new, without a word about them",
        Types.ENUM("A", "B"),
        Types.ENUM("A", "C", default="A"),
    ),
    Rule("a number becomes a shorter one, or `LONG` becomes `DOUBLE`", _LONG, _INT),
    Rule("any other change of a single type", _LONG, _TEXT),
    Rule("text or a number becomes an enum", _TEXT, Types.ENUM("A", "B")),
    Rule(
        "elements of an array may no longer be null", Types.OBJECT_ARRAY(_LONG), Types.PRIMITIVE_ARRAY(_LONG)
    ),
    Rule("a tuple gets more or fewer fields", Types.TUPLE([_LONG]), Types.TUPLE([_LONG, _LONG])),
    Rule("a row without names gets fewer fields", Types.ROW([_TEXT, _LONG]), Types.ROW([_TEXT])),
    Rule("a row loses its names, or becomes a tuple", _row("name", _TEXT), Types.ROW([_TEXT])),
    Rule(
        "the keys of a `MAP` within a value change, unless they are enums",
        Types.MAP(_INT, _LONG),
        Types.MAP(_LONG, _LONG),
    ),
    Rule("to or from `PICKLED_BYTE_ARRAY`", Types.PICKLED_BYTE_ARRAY(), _row("name", _TEXT)),
)


def lines() -> Iterator[str]:
    """The table in Markdown: what is in RocksDB's own files, and what is read whole (HashMap, operator state)."""
    yield "| the type of a value | example | RocksDB | HashMap, operator state |"
    yield "|---|---|---|---|"
    for rule in RULES:
        lazy, whole = (
            evolution.compare(_state(rule.before), _state(rule.now), reads_all=reads_all).kind.value
            for reads_all in (False, True)
        )
        yield f"| {rule.change} | `{rule.before.describe()}` → `{rule.now.describe()}` | {lazy} | {whole} |"


def _state(value_type: TypeInformation) -> evolution.StateTypes:
    return evolution.StateTypes("operator", "state", "value", Types.LONG(), value_type)


if __name__ == "__main__":
    print("\n".join(lines()))
