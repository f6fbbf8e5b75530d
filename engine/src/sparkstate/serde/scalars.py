"""Types of single values. All are immutable, and all can be keys.

A normalised value is of Python's own class, never of a subclass. A subclass may carry more than is stored: with the
nanoseconds of a ``pandas.Timestamp``, two map keys would differ until a restart, and be one afterwards.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sparkstate import errors
from sparkstate.serde.typeinfo import (
    SCHEMA_ID,
    SCHEMA_PREFIX,
    TypeInformation,
    pack_bytes,
    require_whole_text,
)

NAN = math.nan
"""The one NaN object: a dict finds a NaN only by identity, so keys and values all use this one."""

_MOST_BITS = (10**4000).bit_length()
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_MOST_BIN_8, _MOST_BIN_16 = 0xFF, 0xFFFF
_BIN_8 = tuple(SCHEMA_PREFIX + bytes([0xC4, length]) for length in range(_MOST_BIN_8 + 1))
_BIN_16 = SCHEMA_PREFIX + b"\xc5"
"""The bytes that msgpack puts before so many others."""
_MICROSECOND = datetime.timedelta(microseconds=1)


class ScalarType(TypeInformation):
    """A named type without arguments."""

    is_key_type = True

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> str:
        return self.name

    def decode_all(self, found: Sequence[bytes | None]) -> list[Any]:
        """As of every type. Written out, because two calls for each value take longer than to decode it."""
        if type(self).unpack is not TypeInformation.unpack:
            return super().decode_all(found)
        decode, unpack_bytes = self.decode, self._unpack_bytes
        try:
            return [
                unpack_bytes(data[1:]) if data and data[0] == SCHEMA_ID else decode(data or b"")
                for data in found
            ]
        except (msgspec.DecodeError, ValueError, TypeError):
            return super().decode_all(found)  # says which type the bytes are not of


class IntegerType(ScalarType):
    """BYTE, SHORT, INT, LONG: whole numbers of 8 to 64 bits. Numbers with ``__index__`` are taken, bool is not."""

    wire = int

    def __init__(self, name: str, bits: int) -> None:
        super().__init__(name)
        self.low = -(1 << (bits - 1))
        self.high = (1 << (bits - 1)) - 1

    def normalize(self, value: Any) -> int:
        number: int = value if type(value) is int else self._whole(value)
        if self.low <= number <= self.high:
            return number
        raise self.refuse(number)

    def _whole(self, value: Any) -> int:
        if isinstance(value, bool):
            raise self.refuse(value)
        try:
            return int(operator.index(value))  # a plain int, not a subclass of it
        except TypeError:
            raise self.refuse(value) from None

    freeze = normalize

    def encode(self, stored: Any) -> bytes:
        return b"" if stored is None else SCHEMA_PREFIX + pack_bytes(stored)


class FloatType(ScalarType):
    """FLOAT and DOUBLE; both are kept in 64 bits, because Python has no shorter float. Whole numbers are taken."""

    wire = float

    def normalize(self, value: Any) -> float:
        if type(value) is not float:
            if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
                raise self.refuse(value)
            value = float(value)
        return value if value == value else NAN  # noqa: PLR0124 - only NaN differs from itself

    freeze = normalize

    @functools.cached_property
    def normalize_map_key(self) -> Callable[[Any], Any]:
        return self._with_one_zero

    def _with_one_zero(self, key: Any) -> float:
        return self.normalize(key) or 0.0

    def unpack(self, packed: Any) -> float:
        return float(packed) if packed == packed else NAN  # noqa: PLR0124


class BooleanType(ScalarType):
    """BOOLEAN: ``True`` or ``False``, nothing that is merely truthy."""

    wire = bool

    def normalize(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise self.refuse(value)


class StringType(ScalarType):
    """STRING, and CHAR (one character)."""

    has_text = True
    wire = str

    def normalize(self, value: Any) -> str:
        if not isinstance(value, str) or (self.name == "CHAR" and len(value) != 1):
            raise self.refuse(value)
        return value if type(value) is str else "".join(value)  # a plain str, not a subclass of it

    def freeze(self, value: Any) -> str:
        text = self.normalize(value)
        if not text.isascii():
            try:
                require_whole_text(text)
            except UnicodeEncodeError:
                raise self.refuse_half(text) from None
        return text


class BytesType(ScalarType):
    """Bytes, PyFlink's ``Types.PRIMITIVE_ARRAY(Types.BYTE())``."""

    wire = bytes

    def __init__(self) -> None:
        super().__init__("PRIMITIVE_ARRAY<BYTE>")

    def normalize(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            # ``bytes()`` leaves a subclass whose ``__bytes__`` returns itself as it is.
            return value if type(value) is bytes else b"".join((value,))
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        raise self.refuse(value)

    def encode(self, stored: Any) -> bytes:
        # The bytes of msgspec in half of its time: one copy instead of two, and fewer calls for each value.
        if stored is None or (length := len(stored)) > _MOST_BIN_16:
            return super().encode(stored)
        head = _BIN_8[length] if length <= _MOST_BIN_8 else _BIN_16 + length.to_bytes(2)
        return head + stored  # type: ignore[no-any-return]

    def encode_all(self, stored: Sequence[Any]) -> list[bytes | None]:
        # Mostly all of them are of one length, and so begin in the same way.
        lengths = {-1 if each is None else len(each) for each in stored}
        length = lengths.pop() if len(lengths) == 1 else -1
        if length < 0:
            return super().encode_all(stored)
        head = self.encode(bytes(length))[: -length or None]
        return [head + each for each in stored]


class BigIntegerType(ScalarType):
    """BIG_INT: whole numbers of up to 4,000 decimal digits, in which they are written. Python itself neither writes nor
    reads a number of more than 4,300 digits as text."""

    wire = str

    def normalize(self, value: Any) -> int:
        if isinstance(value, bool):
            raise self.refuse(value)
        try:
            number = operator.index(value)
        except TypeError:
            raise self.refuse(value) from None
        if number.bit_length() > _MOST_BITS:
            raise errors.SerializationError(
                f"a whole number of {number.bit_length()} bits does not fit the declared type {self.describe()}, which "
                "takes 4,000 decimal digits; keep it as bytes"
            )
        return number

    def pack(self, value: Any) -> str:
        return str(value)

    def unpack(self, packed: Any) -> int:
        return int(packed)


class DecimalType(ScalarType):
    """BIG_DEC: ``decimal.Decimal``, finite."""

    wire = str

    def normalize(self, value: Any) -> decimal.Decimal:
        if isinstance(value, decimal.Decimal) and value.is_finite():
            return value if type(value) is decimal.Decimal else decimal.Decimal(value)
        raise self.refuse(value)

    @functools.cached_property
    def normalize_map_key(self) -> Callable[[Any], Any]:
        return self._without_trailing_zeros

    def _without_trailing_zeros(self, key: Any) -> decimal.Decimal:
        return decimal.Decimal(decimal_key_text(self.normalize(key)))

    def pack(self, value: Any) -> str:
        return str(value)

    def unpack(self, packed: Any) -> decimal.Decimal:
        return decimal.Decimal(packed)


def decimal_key_text(value: decimal.Decimal) -> str:
    """The text by which a decimal is a key. 1.0 equals 1.00 in Python, so they must be one key: no trailing zeros
    behind the point, no exponent, no sign of a zero."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class DateType(ScalarType):
    """SQL_DATE: ``datetime.date``, written as days since 1970-01-01."""

    wire = int

    def normalize(self, value: Any) -> datetime.date:
        if type(value) is datetime.date:
            return value
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return datetime.date(value.year, value.month, value.day)
        raise self.refuse(value)

    def pack(self, value: Any) -> int:
        return int(value.toordinal() - _EPOCH_DAY)

    def unpack(self, packed: Any) -> datetime.date:
        return datetime.date.fromordinal(packed + _EPOCH_DAY)


class TimeType(ScalarType):
    """SQL_TIME: ``datetime.time`` without a zone, written as microseconds since midnight."""

    wire = int

    def normalize(self, value: Any) -> datetime.time:
        if isinstance(value, datetime.time) and value.tzinfo is None:
            return datetime.time(value.hour, value.minute, value.second, value.microsecond)
        raise self.refuse(value)

    def pack(self, value: Any) -> int:
        return int(((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond)

    def unpack(self, packed: Any) -> datetime.time:
        return (_EPOCH + datetime.timedelta(microseconds=packed)).time()


class TimestampType(ScalarType):
    """SQL_TIMESTAMP (without a zone) and INSTANT (with one, kept in UTC): microseconds since 1970-01-01."""

    wire = int

    def __init__(self, name: str, *, zoned: bool) -> None:
        super().__init__(name)
        self._zoned = zoned
        self._epoch = _EPOCH_UTC if zoned else _EPOCH

    def normalize(self, value: Any) -> datetime.datetime:
        time: datetime.datetime = value if type(value) is datetime.datetime else self._plain(value)
        if (time.tzinfo is not None) != self._zoned:
            raise self.refuse(value)
        return time.astimezone(datetime.UTC) if self._zoned else time.replace(fold=0)

    def _plain(self, value: Any) -> datetime.datetime:
        """The same time without what a subclass adds to it, such as nanoseconds."""
        # pandas' NaT passes for a datetime; only it differs from itself.
        if not isinstance(value, datetime.datetime) or value != value:  # noqa: PLR0124
            raise self.refuse(value)
        date = (value.year, value.month, value.day)
        time = (value.hour, value.minute, value.second, value.microsecond)
        try:
            return datetime.datetime(*date, *time, value.tzinfo, fold=value.fold)
        except ValueError:  # pandas has years beyond 9999
            raise self.refuse(value) from None

    def pack(self, value: Any) -> int:
        return int((value - self._epoch) // _MICROSECOND)

    def unpack(self, packed: Any) -> datetime.datetime:
        return self._epoch + datetime.timedelta(microseconds=packed)
