"""Enums: members and names as values, their bytes, their place in other types and in keys, and what is refused."""

from __future__ import annotations

import enum
import pickle
import subprocess
import sys

import cloudpickle
import pytest

from sparkstate import errors
from sparkstate.serde import composite, expiring, types
from sparkstate.serde.types import Types, parse


class Color(enum.Enum):
    """RED has a second name. No store would take the values."""

    RED = object()
    GREEN = ("a", "tuple")
    BLUE = 3
    SCARLET = RED


class Swapped(enum.StrEnum):
    """Each member's text is the name of another."""

    A = "B"
    B = "A"


class Level(enum.IntEnum):
    LOW = 10
    HIGH = 20


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


COLOR, NAMES = Types.ENUM(Color), Types.ENUM("RED", "GREEN", "BLUE")


def through(declared, value):
    """The value after it was stored and read by the same type."""
    return declared.thaw(declared.decode(declared.encode(declared.freeze(value))))


@pytest.mark.parametrize(
    ("declared", "given", "wanted"),
    [
        pytest.param(COLOR, Color.GREEN, Color.GREEN, id="member"),
        pytest.param(COLOR, Color.SCARLET, Color.RED, id="second name of a member"),
        pytest.param(COLOR, "BLUE", Color.BLUE, id="name"),
        pytest.param(NAMES, "BLUE", "BLUE", id="name without a class"),
        pytest.param(Types.ENUM(Swapped), Swapped.A, Swapped.A, id="member that is text"),
        pytest.param(Types.ENUM(Swapped), "A", Swapped.A, id="name that is another member's text"),
        pytest.param(Types.ENUM(Level), Level.HIGH, Level.HIGH, id="member that is a number"),
        pytest.param(Types.LIST(COLOR), [Color.RED, "RED"], [Color.RED, Color.RED], id="list"),
        pytest.param(Types.BASIC_ARRAY(COLOR), [None, Color.RED], [None, Color.RED], id="array with a null"),
        pytest.param(Types.PRIMITIVE_ARRAY(COLOR), [Color.BLUE], [Color.BLUE], id="primitive array"),
        pytest.param(Types.TUPLE([COLOR, Types.LONG()]), (Color.RED, 1), (Color.RED, 1), id="tuple"),
        pytest.param(Types.ROW([COLOR]), (None,), (None,), id="row with a null"),
        pytest.param(
            Types.ROW_NAMED(["a"], [Types.ROW_NAMED(["b"], [COLOR])]), ((Color.RED,),), ((Color.RED,),),
            id="row in a row",
        ),
        pytest.param(
            Types.MAP(COLOR, COLOR), {Color.RED: "GREEN", "BLUE": None},
            {Color.RED: Color.GREEN, Color.BLUE: None}, id="map of both",
        ),
    ],
)  # fmt: skip
def test_a_value_comes_back_as_a_member_of_its_class(declared, given, wanted):
    found = through(declared, given)
    assert found == wanted
    assert isinstance(found, type(wanted))


def test_members_that_equal_each_others_names_stay_apart():
    declared = Types.ENUM(Swapped)
    assert through(declared, Swapped.A) is Swapped.A
    assert through(declared, Swapped.B) is Swapped.B
    assert declared.freeze(Swapped.A) == declared.freeze("A") != declared.freeze(Swapped.B)


@pytest.mark.parametrize(
    ("declared", "value", "told"),
    [
        pytest.param(COLOR, "PINK", r"'PINK' .* does not fit .* ENUM<\"RED\",\"GREEN\",\"BLUE\">", id="unknown name"),
        pytest.param(COLOR, 3, "a member of Color, or the name of one", id="a member's value"),
        pytest.param(COLOR, Level.LOW, "Level.LOW: 10", id="member of another enum"),
        pytest.param(Types.ENUM("A", "B"), Swapped.A, "Swapped.A", id="member where there is no class"),
        pytest.param(NAMES, 0, "the name of a constant", id="number"),
        pytest.param(COLOR, None, "None", id="null"),
        pytest.param(COLOR, ["RED"], r"\['RED'\]", id="list"),
    ],
)  # fmt: skip
def test_what_is_no_constant_is_refused_with_the_value_and_the_constants(declared, value, told):
    with pytest.raises(errors.SerializationError, match=told):
        declared.freeze(value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param((Rights,), "Rights is a Flag", id="flag"),
        pytest.param((), "no constants", id="nothing"),
        pytest.param((enum.Enum("Empty", []),), "the enum Empty has no constants", id="empty class"),
        pytest.param(("A", "A"), "one of them twice", id="twice"),
        pytest.param(("A", ""), "'' cannot be the name", id="empty name"),
        pytest.param(("A", "\ud83d"), "cannot be the name", id="half of a character"),
        pytest.param((Color, "A"), "cannot be the name", id="class and name"),
        pytest.param((Color.RED,), "cannot be the name", id="member"),
    ],
)
def test_what_is_no_enum_is_refused_where_it_is_declared(given, told):
    with pytest.raises(errors.StateError, match=told):
        Types.ENUM(*given)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param({"default": "PINK"}, "no such constant; its constants are", id="default of nothing"),
        pytest.param({"aliases": {"PINK": "ROSE"}}, "the enum has no constant 'PINK'", id="alias of nothing"),
        pytest.param({"aliases": {"RED": "BLUE"}}, "'BLUE' is named twice", id="alias is a constant"),
        pytest.param({"dropped": ["RED"]}, "'RED' is named twice", id="dropped is a constant"),
        pytest.param({"dropped": [Color.RED]}, "not the name of an earlier constant", id="no text"),
    ],
)
def test_contradictions_about_earlier_constants_are_refused(said, told):
    with pytest.raises(errors.StateError, match=told):
        Types.ENUM(Color, **said)


def test_earlier_constants_and_the_class_are_no_part_of_the_type():
    said = Types.ENUM(Color, aliases={Color.RED: "ROUGE"}, default=Color.BLUE, dropped=["PINK"])
    assert said == COLOR == NAMES == parse('ENUM<"RED","GREEN","BLUE">')
    assert said.aliases == {"RED": ("ROUGE",)}


def test_the_stored_form_is_a_number_and_the_same_with_and_without_the_class():
    for declared in (COLOR, NAMES):
        assert [declared.encode(declared.freeze(name)) for name in ("RED", "BLUE")] == [b"\0\0", b"\0\2"]
    many = Types.ENUM(*(f"C{number}" for number in range(300)))
    assert many.freeze("C127") == b"\0\x7f"
    assert many.freeze("C299") == b"\0\xcd\x01\x2b"
    assert through(many, "C299") == "C299"


def test_constants_that_are_added_at_the_end_change_no_bytes():
    more = Types.ENUM("RED", "GREEN", "BLUE", "PINK")
    assert more.thaw(COLOR.freeze(Color.BLUE)) == "BLUE"


def test_equal_values_of_a_restored_store_are_one_object():
    assert NAMES.decode(bytes([0, 2])) is NAMES.decode(bytes([0, 2])) is NAMES.freeze("BLUE")
    assert NAMES.decode(b"") is None


@pytest.mark.parametrize(
    "data", [b"\0\3", b"\0\xff", b"\0\xa3RED", b"\0"], ids=["more", "negative", "text", "none"]
)
@pytest.mark.parametrize("declared", [COLOR, NAMES], ids=["class", "names"])
def test_bytes_of_no_constant_are_corrupt_data(declared, data):
    with pytest.raises(errors.CorruptData, match='not of type ENUM<"RED"'):
        declared.thaw(declared.decode(data))


@pytest.mark.parametrize(
    "text",
    ["ENUM", "ENUM<>", "ENUM<A>", 'ENUM<"A"', 'ENUM<"A",>', 'ENUM<"A","A">', 'ENUM<"A":LONG>', "ENUM<1>", 'ENUM<"">'],
)  # fmt: skip
def test_what_describes_no_enum_is_corrupt_data(text):
    with pytest.raises(errors.CorruptData, match="does not describe a type"):
        parse(text)


@pytest.mark.parametrize(
    "declared",
    [
        Types.ENUM("A>", 'odd "name"', "ü,"),
        Types.MAP(Types.TUPLE([COLOR, Types.LONG()]), Types.LIST(COLOR)),
        Types.ROW_NAMED(["ENUM", "b"], [COLOR, Types.ENUM("ENUM<")]),
    ],
)
def test_a_type_with_enums_is_rebuilt_from_its_description(declared):
    assert parse(declared.describe()) == declared
    assert parse(declared.describe()).is_immutable is declared.is_immutable is False


# --- keys


@pytest.mark.parametrize(
    ("declared", "key", "normal", "data"),
    [
        pytest.param(COLOR, Color.RED, "RED", "015245440000", id="enum"),
        pytest.param(
            Types.TUPLE([COLOR, Types.BOOLEAN()]), (Color.RED, True), ("RED", True), "010152454400000101",
            id="tuple",
        ),
    ],
)  # fmt: skip
def test_a_map_key_is_stored_by_name_so_that_it_outlives_another_order(declared, key, normal, data):
    codec = composite.key_codec(declared)
    assert declared.normalize(key) == normal
    assert codec.encode(normal).hex() == data
    assert codec.decode(bytes.fromhex(data)) == (normal, len(data) // 2)
    assert declared.thaw_key(normal) == key
    assert parse(declared.describe()).thaw_key is None


def test_a_key_of_an_unknown_constant_is_corrupt_data():
    with pytest.raises(errors.CorruptData, match="'PINK'"):
        COLOR.thaw_key("PINK")


# --- classes


def test_a_type_goes_to_another_process_with_its_class_or_plain_without_it():
    kind = Types.MAP(Types.STRING(), Types.ROW_NAMED(["c"], [COLOR], defaults={"c": Color.RED}))
    kind = expiring.ExpiringType(Types.LIST(kind), expiring.TimeToLive(5))
    assert through(pickle.loads(pickle.dumps(COLOR)), "RED") is Color.RED
    used = Types.ENUM(Level, default=Level.LOW)
    through(used, Level.HIGH)
    again = pickle.loads(pickle.dumps(used))
    assert (again.default, through(again, "HIGH")) == ("LOW", Level.HIGH)
    plain = kind.plain()
    assert plain == kind
    assert plain.value_type.element.value.defaults == {"c": "RED"}
    assert __name__.encode() in cloudpickle.dumps(COLOR)
    assert __name__.encode() not in cloudpickle.dumps(plain)


def test_a_description_is_read_where_the_class_is_not():
    code = (
        "from sparkstate.serde.types import parse\n"
        f"kind = parse({types.Types.LIST(COLOR).describe()!r})\n"
        "print(kind.thaw(kind.decode(bytes([0, 0x92, 2, 0]))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "['BLUE', 'RED']\n"
