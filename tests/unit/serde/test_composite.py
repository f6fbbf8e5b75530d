"""Row keys: their order is that of the values, none is a prefix of another, and they come back."""

from __future__ import annotations

import datetime
import decimal
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.serde import composite
from sparkstate.serde.types import Types

LONGS = st.integers(-(2**63), 2**63 - 1)
ORDERED = [
    pytest.param(Types.LONG(), LONGS, id="long"),
    pytest.param(Types.DOUBLE(), st.floats(allow_nan=False), id="double"),
    pytest.param(Types.BOOLEAN(), st.booleans(), id="boolean"),
    pytest.param(Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(), id="bytes"),
    pytest.param(Types.SQL_DATE(), st.dates(), id="date"),
    pytest.param(Types.SQL_TIMESTAMP(), st.datetimes(), id="timestamp"),
    pytest.param(
        Types.TUPLE([Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())]),
        st.tuples(LONGS, st.binary()),
        id="tuple",
    ),
]
UNORDERED = [
    pytest.param(Types.STRING(), st.text(st.characters(codec="utf-8")), id="string"),
    pytest.param(Types.ENUM("A", "AB", "\0", "ü"), st.sampled_from(["A", "AB", "\0", "ü"]), id="enum"),
    pytest.param(Types.BIG_INT(), st.integers(), id="big int"),
    pytest.param(Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False), id="decimal"),
    pytest.param(Types.SQL_TIME(), st.times(), id="time"),
]


@pytest.mark.parametrize(("declared", "values"), ORDERED)
def test_bytes_sort_as_the_values_do(declared, values):
    codec = composite.key_codec(declared)

    @given(values, values)
    def check(one, other):
        assert (codec.encode(one) < codec.encode(other)) == (one < other)

    check()


@pytest.mark.parametrize(("declared", "values"), [*ORDERED, *UNORDERED])
def test_keys_come_back_and_none_is_a_prefix_of_another(declared, values):
    codec = composite.key_codec(declared)

    @given(st.none() | values, st.none() | values, st.binary(max_size=3))
    def check(one, other, following):
        first, second = codec.encode(one), codec.encode(other)
        assert codec.decode(first + following) == (one, len(first))
        assert (first == second) == (one == other)
        if one != other:
            assert not first.startswith(second)
            assert not second.startswith(first)

    check()


NAMESPACES = st.recursive(
    st.booleans() | LONGS | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")) | st.binary(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@given(NAMESPACES, st.binary(max_size=3))
def test_a_namespace_tells_its_own_type(namespace, following):
    data = composite.NAMESPACES.encode(namespace)
    found, end = composite.NAMESPACES.decode(data + following)
    assert (found, type(found), end) == (namespace, type(namespace), len(data))


def test_the_default_namespace_is_one_zero_byte():
    assert composite.NAMESPACES.encode(None) == composite.DEFAULT_NAMESPACE == b"\x00"
    assert composite.NAMESPACES.decode(b"\x00") == (None, 1)


@pytest.mark.parametrize("namespace", [["a", "list"], 2**63, -(2**63) - 1, ("w", 2**63)])
def test_what_cannot_be_a_namespace_is_refused(namespace):
    with pytest.raises(errors.SerializationError, match="cannot be a namespace"):
        composite.NAMESPACES.encode(namespace)


@pytest.mark.parametrize("namespace", [math.nan, (1, math.nan), ((math.nan,),)])
def test_new_entries_have_no_nan_in_their_namespace_and_older_ones_are_read(namespace):
    with pytest.raises(errors.SerializationError, match="cannot be a namespace"):
        composite.require_namespace(namespace)
    data = composite.NAMESPACES.encode(namespace)
    assert composite.NAMESPACES.decode(data)[1] == len(data)


@pytest.mark.parametrize(
    "declared", [Types.LIST(Types.LONG()), Types.PICKLED_BYTE_ARRAY(), Types.ROW([Types.LONG()])]
)
def test_what_cannot_be_a_key_is_refused_by_its_type(declared):
    with pytest.raises(errors.StateError, match="cannot be a key"):
        composite.key_codec(declared)


def test_equal_keys_have_equal_bytes_also_where_python_shows_them_differently():
    double, big = composite.key_codec(Types.DOUBLE()), composite.key_codec(Types.BIG_DEC())
    assert double.encode(-0.0) == double.encode(0.0)
    assert big.encode(decimal.Decimal("1.50")) == big.encode(decimal.Decimal("1.5"))
    assert big.encode(decimal.Decimal("100")) == big.encode(decimal.Decimal("1E+2"))
    assert big.encode(decimal.Decimal("-0.0")) == big.encode(decimal.Decimal("0"))


HAVE_TWO_FORMS = [
    pytest.param(Types.FLOAT(), st.floats(), id="float"),
    pytest.param(Types.TUPLE([Types.LONG(), Types.DOUBLE()]), st.tuples(LONGS, st.floats()), id="pair"),
]


@pytest.mark.parametrize(("declared", "values"), [*ORDERED, *UNORDERED, *HAVE_TWO_FORMS])
def test_a_map_key_is_normalised_to_what_its_bytes_are_read_as(declared, values):
    codec = composite.key_codec(declared)

    @given(values)
    def check(key):
        normal = declared.normalize_map_key(key)
        assert repr(codec.decode(codec.encode(normal))[0]) == repr(normal)

    check()


def test_a_map_key_without_floats_and_decimals_costs_no_second_call():
    for declared in (
        Types.LONG(),
        Types.STRING(),
        Types.TUPLE([Types.LONG(), Types.TUPLE([Types.STRING()])]),
    ):
        assert declared.normalize_map_key == declared.normalize


GOLDEN = [
    pytest.param(Types.LONG(), 5, "018000000000000005", id="long"),
    pytest.param(Types.LONG(), -1, "017fffffffffffffff", id="negative long"),
    pytest.param(Types.LONG(), None, "00", id="null"),
    pytest.param(Types.DOUBLE(), 1.0, "01bff0000000000000", id="double"),
    pytest.param(Types.STRING(), "a\0b", "016100ff620000", id="string with a zero"),
    pytest.param(Types.ENUM("RED"), "RED", "015245440000", id="enum"),
    pytest.param(Types.BOOLEAN(), True, "0101", id="boolean"),
    pytest.param(Types.SQL_DATE(), datetime.date(1970, 1, 2), "018000000000000001", id="date"),
    pytest.param(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]), ("", None), "0101000000", id="tuple"),
    pytest.param(Types.BIG_DEC(), decimal.Decimal("1.50"), "01312e350000", id="decimal"),
]


@pytest.mark.parametrize(("declared", "key", "wanted"), GOLDEN)
def test_key_bytes_are_as_documented(declared, key, wanted):
    assert composite.key_codec(declared).encode(key).hex() == wanted


def test_key_groups_and_timestamps_sort_as_numbers():
    stamps = [-(2**63), -1, 0, 1, 2**63 - 1]
    encoded = [composite.encode_long(stamp) for stamp in stamps]
    assert sorted(encoded) == encoded
    assert [composite.decode_long(data) for data in encoded] == stamps
    assert composite.encode_key_group(258) == b"\x01\x02"
    assert composite.decode_key_group(b"\x01\x02rest") == 258
