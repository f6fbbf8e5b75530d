"""Types: what they take, what they refuse, how they are stored and described."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import pickle
from typing import Any

import msgspec
import numpy as np
import pandas
import pyspark.sql
import pytest

from sparkstate import errors
from sparkstate.serde import scalars
from sparkstate.serde.packed import PackedType
from sparkstate.serde.row import Row, row_class
from sparkstate.serde.types import TypeInformation, Types, parse

UTC = datetime.UTC
NESTED = Types.MAP(Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LIST(Types.DOUBLE()))
NAMED = Types.ROW_NAMED(["a", 'odd "name"'], [Types.LONG(), Types.BASIC_ARRAY(Types.STRING())])

PACKED = PackedType(["rows", 'odd "name"', "is it"], [Types.LONG(), Types.DOUBLE(), Types.BOOLEAN()])

GOOD = [
    pytest.param(Types.BOOLEAN(), True, id="boolean"),
    pytest.param(Types.BYTE(), -128, id="byte"),
    pytest.param(Types.SHORT(), 32767, id="short"),
    pytest.param(Types.INT(), -(2**31), id="int"),
    pytest.param(Types.LONG(), 2**63 - 1, id="long"),
    pytest.param(Types.FLOAT(), 1.5, id="float"),
    pytest.param(Types.DOUBLE(), -math.inf, id="double"),
    pytest.param(Types.CHAR(), "ü", id="char"),
    pytest.param(Types.STRING(), "zero\0and 🚀", id="string"),
    pytest.param(Types.BIG_INT(), -(2**200), id="big int"),
    pytest.param(Types.BIG_DEC(), decimal.Decimal("-1.50"), id="big decimal"),
    pytest.param(Types.SQL_DATE(), datetime.date(1969, 12, 31), id="date"),
    pytest.param(Types.SQL_TIME(), datetime.time(23, 59, 59, 999999), id="time"),
    pytest.param(Types.SQL_TIMESTAMP(), datetime.datetime(1900, 1, 1, 0, 0, 0, 1), id="timestamp"),
    pytest.param(Types.INSTANT(), datetime.datetime(2013, 6, 1, 12, tzinfo=UTC), id="instant"),
    pytest.param(Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0\xff", id="bytes"),
    pytest.param(Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], id="primitive array"),
    pytest.param(Types.OBJECT_ARRAY(Types.STRING()), ["a", None], id="object array with a null"),
    pytest.param(Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "x"), id="tuple"),
    pytest.param(Types.TUPLE([]), (), id="empty tuple"),
    pytest.param(Types.LIST(Types.LIST(Types.LONG())), [[1], []], id="list of lists"),
    pytest.param(NESTED, {("a", 1): [1.0, 2.5], ("b", -1): None}, id="map of tuples"),
    pytest.param(Types.ROW([Types.LONG(), Types.STRING()]), Row((1, None)), id="row with a null"),
    pytest.param(NAMED, Row.of(a=1, **{'odd "name"': ["x", None]}), id="named row"),
    pytest.param(Types.ENUM("A", "B"), "B", id="enum"),
    pytest.param(Types.PICKLED_BYTE_ARRAY(), {"any": {1, 2}}, id="pickled"),
    pytest.param(Types.LIST(Types.PICKLED_BYTE_ARRAY()), [None, {1}], id="list of pickled with None"),
    pytest.param(PACKED, bytes(range(18)), id="packed row"),
    pytest.param(
        PackedType(list(map(str, range(40))), [Types.LONG()] * 40), bytes(325), id="wide packed row"
    ),
]

BAD = [
    pytest.param(Types.LONG(), 2**63, id="a long of 64 bits and one more"),
    pytest.param(Types.BYTE(), 128, id="a byte too large"),
    pytest.param(Types.LONG(), True, id="a boolean as a long"),
    pytest.param(Types.LONG(), 1.0, id="a float as a long"),
    pytest.param(Types.LONG(), "1", id="text as a long"),
    pytest.param(Types.DOUBLE(), "1.0", id="text as a double"),
    pytest.param(Types.BOOLEAN(), 1, id="a number as a boolean"),
    pytest.param(Types.STRING(), b"x", id="bytes as text"),
    pytest.param(Types.CHAR(), "xy", id="two characters"),
    pytest.param(Types.BIG_DEC(), decimal.Decimal("NaN"), id="a decimal that is no number"),
    pytest.param(Types.SQL_DATE(), datetime.datetime(2020, 1, 1), id="a timestamp as a date"),
    pytest.param(Types.INSTANT(), datetime.datetime(2020, 1, 1), id="an instant without a zone"),
    pytest.param(Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1, tzinfo=UTC), id="a zone too many"),
    pytest.param(Types.SQL_TIMESTAMP(), pandas.NaT, id="no time"),
    pytest.param(Types.INSTANT(), pandas.NaT, id="no instant"),
    pytest.param(Types.ROW([Types.SQL_TIMESTAMP()]), (pandas.NaT,), id="no time in a row"),
    pytest.param(Types.SQL_DATE(), pandas.NaT, id="no date"),
    pytest.param(Types.TUPLE([Types.LONG()]), (1, 2), id="a tuple too long"),
    pytest.param(Types.TUPLE([Types.LONG()]), (None,), id="a null in a tuple"),
    pytest.param(Types.LIST(Types.LONG()), [1, None], id="a null in a list"),
    pytest.param(Types.LIST(Types.STRING()), "text", id="text as a list"),
    pytest.param(Types.MAP(Types.STRING(), Types.LONG()), {1: 1}, id="a map key of another type"),
    pytest.param(NAMED, {"a": 1}, id="a row that lacks a field"),
    pytest.param(Types.ENUM("A", "B"), "C", id="a name that is no constant"),
    pytest.param(Types.PICKLED_BYTE_ARRAY(), (x for x in "a"), id="what cannot be pickled"),
    pytest.param(PACKED, bytes(17), id="a packed row too short"),
]


@pytest.mark.parametrize(("declared", "value"), GOOD)
def test_a_value_comes_back_equal_from_its_stored_form_and_its_bytes(declared, value):
    stored = declared.freeze(value)
    data = declared.encode(stored)
    assert data[:1] == b"\x00"
    assert declared.thaw(stored) == value
    assert declared.thaw(declared.decode(data)) == value
    assert type(declared.thaw(declared.decode(data))) is type(declared.thaw(stored))


@pytest.mark.parametrize(("declared", "value"), BAD)
def test_a_value_of_another_type_is_refused_with_both_types_named(declared, value):
    with pytest.raises(errors.SerializationError, match="does not fit the declared type"):
        declared.freeze(value)


@pytest.mark.parametrize("declared", [case.values[0] for case in GOOD])
def test_a_type_is_rebuilt_from_its_description(declared):
    assert parse(declared.describe()) == declared
    assert parse(declared.describe()).is_immutable == declared.is_immutable


@pytest.mark.parametrize(
    "text",
    [
        *("", "LONGS", "LIST<", "LIST<LONG", "LIST<LONG>x", "MAP<LONG>", "ROW<a:LONG>"),
        *("PACKED<>", "PACKED<LONG>", 'PACKED<"a":STRING>', 'PACKED<"a":LONG,"a":LONG>'),
    ],
)
def test_what_describes_no_type_is_corrupt_data(text):
    with pytest.raises(errors.CorruptData, match="does not describe a type"):
        parse(text)


def test_descriptions_are_stable_because_they_are_stored():
    assert NESTED.describe() == "MAP<TUPLE<STRING,LONG>,LIST<DOUBLE>>"
    assert PACKED.describe() == 'PACKED<"rows":LONG,"odd \\"name\\"":DOUBLE,"is it":BOOLEAN>'
    assert NAMED.describe() == 'ROW<"a":LONG,"odd \\"name\\"":BASIC_ARRAY<STRING>>'


def test_mutable_values_are_stored_as_bytes_so_that_their_owner_cannot_change_them():
    declared, mine = Types.LIST(Types.LONG()), [1]
    stored = declared.freeze(mine)
    mine.append(2)
    read = declared.thaw(stored)
    read.append(3)
    assert declared.thaw(stored) == [1]


def test_numbers_of_numpy_become_numbers_of_python():
    assert type(Types.LONG().freeze(np.int64(3))) is int
    assert type(Types.DOUBLE().freeze(np.float32(0.5))) is float
    assert type(Types.DOUBLE().freeze(1)) is float


def test_every_nan_is_the_same_object_so_that_a_dict_finds_it():
    double = Types.DOUBLE()
    assert double.freeze(float("nan")) is scalars.NAN
    assert double.decode(double.encode(float("nan"))) is scalars.NAN


def test_bytes_of_an_unknown_schema_are_of_an_unknown_format_and_those_of_another_type_corrupt_data():
    with pytest.raises(errors.UnknownFormat, match="schema id 07"):
        Types.LONG().decode(b"\x07\x01")
    with pytest.raises(errors.CorruptData, match="not of type LONG"):
        Types.LONG().decode(Types.STRING().encode("x"))
    with pytest.raises(errors.CorruptData, match="it has 17 bytes and not 18"):
        PACKED.decode(Types.PRIMITIVE_ARRAY(Types.BYTE()).encode(bytes(17)))


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_535, 65_536])
def test_bytes_are_encoded_as_msgpack_has_them(length):
    declared, value = Types.PRIMITIVE_ARRAY(Types.BYTE()), bytes(length)
    assert declared.encode(value) == b"\0" + msgspec.msgpack.encode(value)
    assert declared.decode(declared.encode(value)) == value
    for values in ([value, value], [value, None], [value, value + b"x"], [None, None], []):
        assert declared.encode_all(values) == [
            None if each is None else declared.encode(each) for each in values
        ]


@pytest.mark.parametrize(("declared", "value"), GOOD)
def test_many_values_are_decoded_as_one_by_one(declared, value):
    data = declared.encode(declared.freeze(value))
    one = declared.decode(data)
    found = declared.decode_all([data, None, b"", data])
    assert found == [one, None, None, one]
    assert type(found[0]) is type(one)


@pytest.mark.parametrize("declared", [Types.LONG(), Types.STRING(), Types.DOUBLE(), PACKED])
def test_one_of_many_values_that_is_of_another_type_is_named_as_by_itself(declared):
    other = Types.TUPLE([Types.LONG()]).encode((1,))
    for data, kind, named in (
        (b"\x07\x01", errors.UnknownFormat, "schema id 07"),
        (other, errors.CorruptData, "not of type"),
    ):
        with pytest.raises(kind, match=named) as alone:
            declared.decode(data)
        with pytest.raises(kind) as among:
            declared.decode_all([None, data])
        assert str(among.value) == str(alone.value)


class Bomb:
    """Unpickling it leaves a trace."""

    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


def test_reading_runs_code_only_for_the_pickled_type_and_only_when_a_value_is_asked_for():
    data = Types.PICKLED_BYTE_ARRAY().encode(Types.PICKLED_BYTE_ARRAY().freeze(Bomb()))
    with pytest.raises(errors.CorruptData):
        Types.STRING().decode(data)
    stored = Types.PICKLED_BYTE_ARRAY().decode(data)
    assert Bomb.exploded is False
    Types.PICKLED_BYTE_ARRAY().thaw(stored)
    assert Bomb.exploded is True


@pytest.mark.parametrize(
    "declared",
    [Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.LONG()), Types.TUPLE([Types.PICKLED_BYTE_ARRAY()])],
)
def test_a_type_that_is_mutable_cannot_be_the_key_of_a_map(declared):
    assert not declared.is_key_type
    with pytest.raises(errors.StateError, match="cannot be the key type of a map"):
        Types.MAP(declared, Types.LONG())


BOUNDS = Types.ROW_NAMED(["low", "high"], [Types.LONG(), Types.LONG()])


@pytest.mark.parametrize(
    "value",
    [
        (1, 9),
        [1, 9],
        {"high": 9, "low": 1},
        Row.of(low=1, high=9),
        Row.of(high=9, low=1),
        Row((1, 9)),
        pyspark.sql.Row(high=9, low=1),
        pyspark.sql.Row(1, 9),
    ],
    ids=repr,
)
def test_a_value_with_names_goes_by_them_into_a_row_of_names(value):
    row = BOUNDS.normalize(value)
    assert (row.low, row.high) == (1, 9)
    assert Types.LIST(BOUNDS).normalize([value]) == [row]


@pytest.mark.parametrize("value", [Row.of(lo=1, high=9), pyspark.sql.Row(high=9, lo=1)])
def test_a_row_of_other_names_does_not_fit_a_row_of_names(value):
    with pytest.raises(
        errors.SerializationError, match=r'Row\(.*does not fit the declared type ROW<"low":LONG,"high"'
    ):
        BOUNDS.normalize(value)


def test_a_row_reads_by_name_and_position_and_survives_pickle():
    row = row_class(("count", "air time", "class"))((1, 2.5, "x"))
    assert (row.count, row["air time"], getattr(row, "class"), row[0]) == (1, 2.5, "x", 1)
    assert row == (1, 2.5, "x")
    assert row.asDict() == {"count": 1, "air time": 2.5, "class": "x"}
    assert repr(row) == "Row(count=1, air time=2.5, class='x')"
    again = pickle.loads(pickle.dumps(row))
    assert again == row
    assert again.count == 1
    with pytest.raises(KeyError):
        row["missing"]
    with pytest.raises(AttributeError):
        row.count = 2


HALF = "a smile: \ud83d"
"""Half of a character, as ``json.loads`` makes of half of a pair of escapes."""


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.STRING(), HALF),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, HALF)),
        (Types.ROW_NAMED(["a"], [Types.STRING()]), {"a": HALF}),
        (Types.ROW([Types.TUPLE([Types.STRING()]), Types.LONG()]), ((HALF,), None)),
        (Types.LIST(Types.STRING()), ["a", HALF]),
        (Types.MAP(Types.STRING(), Types.STRING()), {"a": HALF}),
        (Types.MAP(Types.STRING(), Types.STRING()), {HALF: "a"}),
        (Types.ROW([Types.LIST(Types.STRING())]), ([HALF],)),
    ],
    ids=lambda part: part.describe() if isinstance(part, TypeInformation) else "",
)
def test_text_that_no_bytes_stand_for_is_refused_when_it_is_written(
    declared: TypeInformation, value: Any
) -> None:
    with pytest.raises(errors.SerializationError, match="half of a character"):
        declared.freeze(value)


@pytest.mark.parametrize("text", ["", "plain", "ünï", "\U0001f600", "\0"])
def test_all_other_text_is_taken(text: str) -> None:
    for declared, value in ((Types.STRING(), text), (Types.TUPLE([Types.STRING()]), (text,))):
        assert declared.decode(declared.encode(declared.freeze(value))) == value


def test_a_whole_number_that_python_does_not_write_as_text_is_refused_when_it_is_written() -> None:
    declared = Types.BIG_INT()
    for largest in (10**4000, -(10**4000)):
        assert declared.decode(declared.encode(declared.freeze(largest))) == largest
    with pytest.raises(errors.SerializationError, match="takes 4,000 decimal digits"):
        declared.freeze(10**4300)


class Day(datetime.date):
    """A date of some library."""


class Noon(datetime.time):
    """A time of some library."""


class Money(decimal.Decimal):
    """A decimal of some library."""


class Name(str):
    """A text of some library."""


class Real(float):
    """A float of some library."""


class Count(enum.IntEnum):
    ONE = 1


NANOS = "2020-06-01 12:30:00.123456789"


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        pytest.param(Types.INSTANT(), pandas.Timestamp(NANOS, tz="Europe/Berlin"), id="instant"),
        pytest.param(Types.SQL_TIMESTAMP(), pandas.Timestamp(NANOS), id="timestamp"),
        pytest.param(Types.SQL_DATE(), Day(2020, 6, 1), id="date"),
        pytest.param(Types.SQL_TIME(), Noon(12, 0, 0, 1, fold=1), id="time"),
        pytest.param(Types.BIG_DEC(), Money("-1.50"), id="big decimal"),
        pytest.param(Types.STRING(), Name("x"), id="text"),
        pytest.param(Types.DOUBLE(), Real(1.5), id="double"),
        pytest.param(Types.DOUBLE(), np.float64(1.5), id="double of numpy"),
        pytest.param(Types.LONG(), Count.ONE, id="long"),
        pytest.param(Types.BIG_INT(), Count.ONE, id="big int"),
        pytest.param(Types.STRING(), np.str_("x"), id="text of numpy"),
        pytest.param(Types.PRIMITIVE_ARRAY(Types.BYTE()), np.bytes_(b"x"), id="bytes of numpy"),
    ],
)
def test_a_value_of_a_subclass_is_the_same_before_and_after_it_was_bytes(
    declared: TypeInformation, value: Any
) -> None:
    stored = declared.freeze(value)
    read = declared.decode(declared.encode(stored))
    assert (type(stored), stored) == (type(read), read)
    assert declared.normalize(stored) == declared.normalize(value)


def test_times_of_pandas_are_cut_to_microseconds_when_they_are_written() -> None:
    written = Types.INSTANT().freeze(pandas.Timestamp(NANOS, tz="Europe/Berlin"))
    assert written == datetime.datetime(2020, 6, 1, 10, 30, 0, 123456, tzinfo=UTC)
    assert Types.SQL_TIMESTAMP().freeze(pandas.Timestamp(NANOS)) == datetime.datetime(
        2020, 6, 1, 12, 30, 0, 123456
    )


def test_a_time_of_pandas_that_python_does_not_have_is_refused() -> None:
    with pytest.raises(errors.SerializationError, match="does not fit the declared type SQL_TIMESTAMP"):
        Types.SQL_TIMESTAMP().freeze(pandas.Timestamp("2020-01-01").as_unit("s").replace(year=12000))
