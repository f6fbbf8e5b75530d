"""The rules of schema evolution, and the migration of bytes that they plan."""

from __future__ import annotations

import datetime
import decimal

import msgspec
import pytest
from support.repository import tree

from sparkstate import errors
from sparkstate.serde import evolution_table, migration, type_changes
from sparkstate.serde.evolution import StateTypes, VerdictKind, compare
from sparkstate.serde.row import Row
from sparkstate.serde.types import Types, parse

LONG, INT, TEXT = Types.LONG(), Types.INT(), Types.STRING()
AS_IS = 11
ON_READ = 14
"""Rules of the table that give this answer; the rest is refused."""


def state(value_type, **changed):
    given = {"uid": "op", "name": "total", "kind": "value", "key_type": LONG, "value_type": value_type}
    return StateTypes(**{**given, **changed})


def row(names, *kinds, **said):
    return Types.ROW_NAMED(names.split(), list(kinds), **said)


def migrated(before, now, value):
    """The value after the bytes were written by one type and read by the other."""
    plan = compare(state(before), state(now)).plan
    stored = before.encode(before.freeze(value))
    if plan is not None:
        plan = msgspec.json.decode(msgspec.json.encode(plan), type=migration.Plan)
        stored = migration.Migration(before, [plan])(stored)
    return now.thaw(now.decode(stored))


@pytest.mark.parametrize(
    ("number", "rule"), list(enumerate(evolution_table.RULES)), ids=[r.change for r in evolution_table.RULES]
)
def test_each_rule_of_the_table_has_its_verdict(number, rule):
    lazy = compare(state(rule.before), state(rule.now))
    whole = compare(state(rule.before), state(rule.now), reads_all=True)
    if number < AS_IS:
        wanted = (VerdictKind.AS_IS, VerdictKind.AS_IS)
    elif number < AS_IS + ON_READ:
        wanted = (VerdictKind.ON_READ, VerdictKind.FULL_PASS)
    else:
        wanted = (VerdictKind.REFUSED, VerdictKind.REFUSED)
    assert (lazy.kind, whole.kind) == wanted


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        pytest.param("kind", {"kind": "list"}, id="kind"),
        pytest.param("key type", {"key_type": INT}, id="key"),
        pytest.param("user key type", {"user_key_type": INT}, id="map-key"),
        pytest.param("namespace type", {"namespace_type": INT}, id="namespace"),
    ],
)
def test_a_changed_kind_or_key_is_refused_even_where_a_value_could_widen(part, changed):
    stored = {"user_key_type": LONG, "namespace_type": LONG}
    verdict = compare(state(LONG, **{**stored, **changed}), state(LONG, **stored))
    assert verdict.is_refused
    assert verdict.part == part
    assert f"state 'total' of operator 'op': its {part} was" in verdict.message


VALUES = [
    pytest.param(INT, LONG, -7, -7, id="int-long"),
    pytest.param(INT, Types.DOUBLE(), 2**31 - 1, float(2**31 - 1), id="int-double"),
    pytest.param(LONG, Types.BIG_INT(), -(2**63), -(2**63), id="long-bigint"),
    pytest.param(LONG, Types.BIG_DEC(), 2**63 - 1, decimal.Decimal(2**63 - 1), id="long-decimal"),
    pytest.param(Types.BIG_INT(), Types.BIG_DEC(), 10**40, decimal.Decimal(10**40), id="bigint-decimal"),
    pytest.param(
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        datetime.date(1899, 12, 31),
        datetime.datetime(1899, 12, 31),
        id="date-timestamp",
    ),
    pytest.param(
        row("a b c", TEXT, INT, LONG),
        row("c new b", LONG, TEXT, LONG, defaults={"new": "?"}, dropped=["a"]),
        ("x", None, 3),
        (3, "?", None),
        id="row",
    ),
    pytest.param(
        row("who at", TEXT, row("x", INT)),
        row("who place", TEXT, row("x y", Types.DOUBLE(), INT, defaults={"y": 5}), aliases={"place": "at"}),
        ("me", (1,)),
        ("me", (1.0, 5)),
        id="nested-and-renamed",
    ),
    pytest.param(
        Types.OBJECT_ARRAY(row("x", INT)),
        Types.OBJECT_ARRAY(row("x y", INT, INT)),
        [(1,), None],
        [(1, None), None],
        id="array-of-rows",
    ),
    pytest.param(
        Types.MAP(TEXT, row("x", INT)), Types.MAP(TEXT, row("y x", INT, INT)), {"a": (1,), "b": None},
        {"a": (None, 1), "b": None}, id="map-of-rows",
    ),
    pytest.param(
        Types.TUPLE([INT, Types.SQL_DATE()]),
        row("n at more", LONG, Types.SQL_TIMESTAMP(), Types.LIST(INT), defaults={"more": [1, 2]}),
        (1, datetime.date(1970, 1, 2)),
        (1, datetime.datetime(1970, 1, 2), [1, 2]),
        id="tuple-to-named-row",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "now", "value", "wanted"), VALUES)
def test_a_value_comes_through_the_migration_as_the_rules_say(before, now, value, wanted):
    found = migrated(before, now, value)
    assert found == wanted
    assert now.normalize(found) == found, "and it is a value of the new type"


def test_a_renamed_field_without_its_alias_is_never_taken_for_a_dropped_one():
    before, now = row("name amount", TEXT, LONG), row("name total", TEXT, LONG)
    verdict = compare(state(Types.LIST(before)), state(Types.LIST(now)))
    assert verdict.is_refused
    assert verdict.field == "[]"
    assert (verdict.before, verdict.now) == (before.describe(), now.describe())
    assert "aliases={'total': 'amount'}" in verdict.remedy
    assert "dropped=['amount']" in verdict.remedy


def test_the_refusal_of_a_field_names_its_path_and_both_types():
    before = row("items", Types.LIST(row("price", LONG)))
    now = row("items", Types.LIST(row("price", TEXT)))
    verdict = compare(state(before), state(now))
    assert (verdict.field, verdict.before, verdict.now) == ("items[].price", "LONG", "STRING")
    assert (
        "its value type, at items[].price, was LONG when it was stored and is now STRING" in verdict.message
    )


def test_an_alias_counts_only_where_the_stored_row_lacks_the_name():
    now = row("a", LONG, aliases={"a": ["b", "c"]})
    assert migrated(row("a b", LONG, LONG), now, (1, 2)) == (1,)
    assert migrated(row("b", LONG), now, (2,)) == (2,)
    assert compare(state(row("b c", LONG, LONG)), state(now)).is_refused


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param({"aliases": {"z": "b"}}, "no field 'z'", id="alias-of-nothing"),
        pytest.param({"aliases": {"a": "a"}}, "'a' is named twice", id="alias-is-a-field"),
        pytest.param({"aliases": {"a": "b"}, "dropped": ["b"]}, "'b' is named twice", id="alias-is-dropped"),
        pytest.param({"dropped": "a"}, "'a' is named twice", id="dropped-is-a-field"),
        pytest.param({"aliases": {"a": [7]}}, "7 is not the name", id="alias-is-no-text"),
        pytest.param({"defaults": {"z": 1}}, "no field 'z'", id="default-of-nothing"),
    ],
)
def test_contradictions_about_earlier_fields_are_refused_where_they_are_said(said, told):
    with pytest.raises(errors.StateError, match=told):
        row("a", LONG, **said)


def test_a_default_has_to_fit_its_field():
    with pytest.raises(errors.SerializationError, match=r"'x' .* does not fit the declared type LONG"):
        row("a", LONG, defaults={"a": "x"})


def test_earlier_fields_are_no_part_of_the_type():
    said = row("a", LONG, aliases={"a": "b"}, defaults={"a": 1}, dropped=["c"])
    assert said == row("a", LONG) == parse(said.describe())


def test_bytes_that_are_not_of_the_old_type_are_corrupt_data():
    plan = type_changes.resolve(row("a", INT), row("a b", INT, INT)).plan
    with pytest.raises(errors.CorruptData, match='not of type ROW<"a":INT>'):
        migration.Migration(row("a", INT), [plan])(b"\x00\xa1x")


def test_bytes_with_another_schema_id_are_not_taken_for_the_old_type():
    before, now = Types.LIST(row("a", INT)), Types.LIST(row("a b", INT, INT))
    stored = b"\x09" + before.freeze([(1,)])[1:]
    migrate = migration.Migration(before, [type_changes.resolve(before, now).plan])
    with pytest.raises(errors.UnknownFormat, match="schema id 09"):
        now.thaw(now.decode(migrate(stored)))


def test_rows_of_a_list_keep_their_class():
    found = migrated(Types.ROW([INT]), row("a", INT), (1,))
    assert isinstance(found, Row)
    assert found.a == 1


def test_the_page_has_the_table_of_the_rules():
    page = (tree.ROOT / "docs" / "schema-evolution.md").read_text()
    _, _, rest = page.partition("prints them -->\n")
    shown, _, _ = rest.partition("<!-- end of rules -->")
    assert shown.splitlines() == list(evolution_table.lines()), (
        "run `python -m sparkstate.serde.evolution_table`, and put what it prints on the page"
    )
