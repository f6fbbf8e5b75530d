"""Keys and namespaces that come as JSON: what is shown of a key finds it again, and what cannot be one is refused."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pytest

from sparkstate import errors
from sparkstate.operators.state import asked_keys, inspection
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
KEYS: dict[str, tuple[TypeInformation, Any]] = {
    "text": (Types.STRING(), "ä"),
    "a number": (Types.LONG(), -7),
    "a double": (Types.DOUBLE(), 0.1),
    "infinity": (Types.DOUBLE(), -math.inf),
    "a boolean": (Types.BOOLEAN(), False),
    "a decimal": (Types.BIG_DEC(), decimal.Decimal("1.50")),
    "a date": (Types.SQL_DATE(), datetime.date(2026, 1, 1)),
    "a timestamp": (Types.INSTANT(), datetime.datetime(2026, 1, 1, 8, 30, 0, 5, tzinfo=datetime.UTC)),
    "a timestamp without a zone": (Types.SQL_TIMESTAMP(), datetime.datetime(2026, 1, 1)),
    "bytes": (BYTES, b"\x00\xff"),
    "null": (Types.SQL_DATE(), None),
    "several": (
        Types.TUPLE([Types.SQL_DATE(), BYTES, Types.LONG()]),
        (datetime.date(2026, 1, 1), b"", None),
    ),
}


@pytest.mark.parametrize("case", KEYS)
def test_a_key_is_found_by_what_is_shown_of_it(case: str) -> None:
    kind, key = KEYS[case]
    shown = json.loads(json.dumps(inspection.to_json(key)))
    found = asked_keys.key_of(kind, shown)
    assert (found, type(found)) == (key, type(key))


def test_nan_is_the_one_that_stores_find_again() -> None:
    assert math.isnan(asked_keys.key_of(Types.DOUBLE(), "NaN"))
    assert asked_keys.key_of(Types.DOUBLE(), "NaN") is asked_keys.key_of(Types.DOUBLE(), "NaN")


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (Types.SQL_DATE(), "soon", '"soon" does not fit SQL_DATE; give it in JSON, such as "2026-01-31"'),
        (Types.SQL_DATE(), 7, "7 does not fit SQL_DATE"),
        (Types.INSTANT(), "2026-01-01T08:30:00", 'such as "2026-01-31T08:30:00+00:00"'),
        (Types.SQL_TIMESTAMP(), "2026-01-01T08:30:00Z", 'such as "2026-01-31T08:30:00"'),
        (Types.LONG(), "7", '"7" does not fit LONG; give it in JSON, such as 7'),
        (Types.LONG(), True, "does not fit LONG"),
        (Types.LONG(), 1 << 63, "does not fit LONG"),
        (Types.STRING(), 7, 'such as "N14228"'),
        (Types.DOUBLE(), "much", "does not fit DOUBLE"),
        (Types.BIG_DEC(), "NaN", 'such as "12.50"'),
        (Types.BIG_DEC(), "1e999999999", "does not fit BIG_DEC"),
        (Types.BIG_DEC(), True, "does not fit BIG_DEC"),
        (BYTES, "not base64!", "(base64)"),
        (BYTES, 7, "(base64)"),
        (Types.TUPLE([Types.LONG(), Types.LONG()]), [7], "give a list of 2 values"),
        (Types.LONG(), [7], "[7] does not fit LONG"),
    ],
)
def test_what_cannot_be_such_a_key_is_refused_with_its_type_and_an_example(
    kind: TypeInformation, given: Any, told: str
) -> None:
    with pytest.raises(errors.SerializationError) as refused:
        asked_keys.key_of(kind, given)
    assert told in str(refused.value)


def test_the_lists_of_a_namespace_are_tuples_all_the_way_down() -> None:
    assert asked_keys.namespace_of([0, [300_000, "x"]]) == (0, (300_000, "x"))
    assert asked_keys.namespace_of(None) is None
    with pytest.raises(errors.SerializationError, match="cannot be a namespace"):
        asked_keys.namespace_of([{"start": 0}])
