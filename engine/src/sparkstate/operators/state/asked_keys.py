"""Keys and namespaces as they are asked for in JSON: the inverse of ``inspection.to_json``, by the type of the key."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkstate import errors
from sparkstate.serde import composite, containers, scalars
from sparkstate.serde.typeinfo import TypeInformation

_MOST_DIGITS: Final = 1000
"""Of a decimal written in full: ``1e999999999`` would take a gigabyte."""


def key_of(kind: TypeInformation, given: Any) -> Any:
    """The key that ``inspection.to_json`` shows as ``given``; null is a key, and a list is a tuple. Raises
    ``SerializationError``, which names the type and an example, for what cannot be such a key."""
    if given is None:
        return None
    if isinstance(kind, containers.TupleType):
        if not isinstance(given, list) or len(given) != len(kind.fields):
            raise errors.SerializationError(
                f"{given!r} does not fit {kind.describe()}; give a list of {len(kind.fields)} values"
            )
        return tuple(key_of(field, value) for field, value in zip(kind.fields, given, strict=True))
    try:
        return kind.normalize(_READERS.get(type(kind), _as_it_is)(given))
    except (ValueError, TypeError, ArithmeticError, errors.SerializationError):
        name = kind.describe()
        raise errors.SerializationError(
            f"{json.dumps(given)} does not fit {name}; give it in JSON, such as {_EXAMPLES.get(name, '7')}"
        ) from None


def namespace_of(given: Any) -> Any:
    """The namespace that JSON gives: lists are tuples, as the start and end of a window. Raises
    ``SerializationError`` for what cannot be one."""
    found = tuple(namespace_of(item) for item in given) if isinstance(given, list) else given
    composite.NAMESPACES.encode(found)
    return found


def _as_it_is(given: Any) -> Any:
    return given


def _number(given: Any) -> Any:
    """JSON has no NaN and no infinity: they are text."""
    return float(given) if given in ("NaN", "Infinity", "-Infinity") else given


def _decimal(given: Any) -> decimal.Decimal:
    if isinstance(given, bool):
        raise TypeError(given)
    found = decimal.Decimal(str(given))
    if found.is_finite() and abs(found.adjusted()) > _MOST_DIGITS:
        raise ValueError(given)
    return found


def _bytes(given: Any) -> bytes:
    return base64.b64decode(given, validate=True)


_READERS: Final[Mapping[type[TypeInformation], Callable[[Any], Any]]] = {
    scalars.FloatType: _number,
    scalars.DecimalType: _decimal,
    scalars.BytesType: _bytes,
    scalars.DateType: datetime.date.fromisoformat,
    scalars.TimeType: datetime.time.fromisoformat,
    scalars.TimestampType: datetime.datetime.fromisoformat,
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "STRING": '"N14228"',
    "BOOLEAN": "true",
    "DOUBLE": '1.5, or "NaN"',
    "BIG_DEC": '"12.50"',
    "SQL_DATE": '"2026-01-31"',
    "SQL_TIMESTAMP": '"2026-01-31T08:30:00"',
    "INSTANT": '"2026-01-31T08:30:00+00:00"',
    "PRIMITIVE_ARRAY<BYTE>": '"AP8=" (base64)',
}
"""In JSON, by the types that columns of keys have (``spark.plans.key_type``); the others are numbers."""
