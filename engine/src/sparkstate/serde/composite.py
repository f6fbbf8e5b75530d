"""Row keys: bytes whose order is the order of the values, and of which none is a prefix of another.

A row key is ``key group (2 bytes, big endian) ‖ key ‖ namespace ‖ sub``. Each part is self-delimiting, so all
rows of a key group, of a key, or of a key and namespace are one contiguous run.

A scalar is one byte 0 for null, or one byte 1 followed by

=============  ================================================================================
whole numbers  8 bytes, big endian, sign bit flipped (dates and times: as the number they are)
floats         8 bytes IEEE 754; sign bit flipped for positive, all bits flipped for negative
booleans       1 byte
text, bytes    the bytes with 0x00 written as 0x00 0xFF, ended by 0x00 0x00
big numbers    as text: canonical decimal digits (unique, not ordered)
=============  ================================================================================

and a tuple is its fields one after another. The key of an enum is the name of its constant, as text. A namespace tells
its own type by its first byte (see ``_AnyCodec``).
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from sparkstate import errors
from sparkstate.serde import containers, enums, scalars
from sparkstate.serde.typeinfo import TypeInformation

_SIGN = 1 << 63
_pack_u64 = struct.Struct(">Q").pack
_unpack_u64 = struct.Struct(">Q").unpack_from
_pack_f64 = struct.Struct(">d").pack
_unpack_f64 = struct.Struct(">d").unpack
_pack_u16 = struct.Struct(">H").pack
_unpack_u16 = struct.Struct(">H").unpack_from
_pack_tagged_u64 = struct.Struct(">BQ").pack

DEFAULT_NAMESPACE = b"\x00"
"""The encoded default namespace (None)."""
LONG_NAMESPACE = 4
"""The first byte of an encoded namespace that is a whole number."""
KEY_GROUP_BYTES = 2


class KeyCodec(Protocol):
    """Encodes values of one key type; ``decode`` returns the value and the offset behind it."""

    def encode(self, value: Any) -> bytes: ...

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]: ...


def encode_key_group(key_group: int) -> bytes:
    """Two bytes, big endian."""
    return _pack_u16(key_group)


def decode_key_group(data: bytes) -> int:
    """The key group at the front of a row key."""
    return int(_unpack_u16(data)[0])


def encode_long(value: int) -> bytes:
    """8 bytes in the order of the signed numbers: list positions, timers' timestamps."""
    return _pack_u64(value + _SIGN)


def decode_long(data: bytes, at: int = 0) -> int:
    """The inverse of :func:`encode_long`."""
    return int(_unpack_u64(data, at)[0]) - _SIGN


def _encode_text(data: bytes) -> bytes:
    if 0 in data:
        data = data.replace(b"\x00", b"\x00\xff")
    return b"\x01" + data + b"\x00\x00"


def _decode_text(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.index(b"\x00\x00", at)
    # An escaped zero at the end of the text ("\0" = 00 FF) can be followed by the terminator, never overlap
    # it, because the byte after an escaped zero is FF.
    return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _order_float(value: float) -> bytes:
    (bits,) = _unpack_u64(_pack_f64(value))
    return _pack_u64(bits ^ (0xFFFFFFFFFFFFFFFF if bits & _SIGN else _SIGN))


def _float_at(data: bytes, at: int) -> float:
    (bits,) = _unpack_u64(data, at)
    bits ^= _SIGN if bits & _SIGN else 0xFFFFFFFFFFFFFFFF
    (value,) = _unpack_f64(_pack_u64(bits))
    return float(value) if value == value else scalars.NAN  # noqa: PLR0124


class _IntCodec:
    def __init__(self, pack: Callable[[Any], int] | None, unpack: Callable[[int], Any] | None) -> None:
        self._pack = pack
        self._unpack = unpack

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        return _pack_tagged_u64(1, (value if self._pack is None else self._pack(value)) + _SIGN)

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        if data[at] == 0:
            return None, at + 1
        number = decode_long(data, at + 1)
        return (number if self._unpack is None else self._unpack(number)), at + 9


class _FloatCodec:
    def encode(self, value: Any) -> bytes:
        # -0.0 equals 0.0, so both must be the same key.
        return b"\x00" if value is None else b"\x01" + _order_float(float(value) + 0.0)

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == 0 else (_float_at(data, at + 1), at + 9)


class _BoolCodec:
    def encode(self, value: Any) -> bytes:
        return b"\x00" if value is None else b"\x01\x01" if value else b"\x01\x00"

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == 0 else (data[at + 1] == 1, at + 2)


class _TextCodec:
    def __init__(self, pack: Callable[[Any], bytes], unpack: Callable[[bytes], Any]) -> None:
        self._pack = pack
        self._unpack = unpack

    def encode(self, value: Any) -> bytes:
        return b"\x00" if value is None else _encode_text(self._pack(value))

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        if data[at] == 0:
            return None, at + 1
        text, end = _decode_text(data, at + 1)
        return self._unpack(text), end


class _StringCodec:
    def encode(self, value: Any) -> bytes:
        return b"\x00" if value is None else _encode_text(value.encode("utf-8", "surrogatepass"))

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        if data[at] == 0:
            return None, at + 1
        text, end = _decode_text(data, at + 1)
        return text.decode("utf-8", "surrogatepass"), end


class _TupleCodec:
    def __init__(self, fields: tuple[KeyCodec, ...]) -> None:
        self._fields = fields

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        return b"\x01" + b"".join([f.encode(item) for f, item in zip(self._fields, value, strict=True)])

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        if data[at] == 0:
            return None, at + 1
        at += 1
        values = []
        for field in self._fields:
            value, at = field.decode(data, at)
            values.append(value)
        return tuple(values), at


def _decimal_text(value: decimal.Decimal) -> bytes:
    return scalars.decimal_key_text(value).encode("ascii")


def key_codec(type_info: TypeInformation) -> KeyCodec:
    """The codec of a key type. Raises ``StateError`` for a type that cannot be a key."""
    match type_info:
        case _ if not type_info.is_key_type:
            raise errors.StateError(
                f"{type_info.describe()} cannot be a key; use a scalar type or a tuple of scalar types"
            )
        case scalars.IntegerType():
            return _IntCodec(None, None)
        case scalars.FloatType():
            return _FloatCodec()
        case scalars.BooleanType():
            return _BoolCodec()
        case scalars.StringType() | enums.EnumType():
            return _StringCodec()  # of an enum's normalised form, which is the name
        case scalars.BytesType():
            return _TextCodec(bytes, bytes)
        case scalars.BigIntegerType():
            return _TextCodec(lambda value: str(value).encode("ascii"), int)
        case scalars.DecimalType():
            return _TextCodec(_decimal_text, lambda data: decimal.Decimal(data.decode("ascii")))
        case scalars.DateType() | scalars.TimeType() | scalars.TimestampType():
            return _IntCodec(type_info.pack, type_info.unpack)
        case containers.TupleType():
            return _TupleCodec(tuple(key_codec(field) for field in type_info.fields))
        case _:
            raise errors.StateError(f"{type_info.describe()} has no key encoding")


_NAMESPACES_ARE = "use a str, an int of 64 bits, a float that is not NaN, a bool, bytes or a tuple of them"


class _AnyCodec:
    """Values that tell their own type: 0 null, 2 false, 3 true, 4 int, 5 float, 6 str, 7 bytes, 8 tuple
    (ended by 1)."""

    def encode(self, value: Any) -> bytes:
        match value:
            case None:
                return b"\x00"
            case bool():
                return b"\x03" if value else b"\x02"
            case int() if -_SIGN <= value < _SIGN:
                return b"\x04" + encode_long(value)
            case float():
                return b"\x05" + _order_float(value + 0.0)
            case str():
                return b"\x06" + _encode_text(value.encode("utf-8", "surrogatepass"))[1:]
            case bytes():
                return b"\x07" + _encode_text(value)[1:]
            case TypedNamespace():
                return value.stored
            case tuple():
                return b"\x08" + b"".join([self.encode(item) for item in value]) + b"\x01"
            case _:
                raise errors.SerializationError(f"{value!r} cannot be a namespace; {_NAMESPACES_ARE}")

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        tag, at = data[at], at + 1
        if tag in (0, 2, 3):
            return (None, False, True)[max(tag - 1, 0)], at
        if tag == 4:
            return decode_long(data, at), at + 8
        if tag == 5:
            return _float_at(data, at), at + 8
        if tag in (6, 7):
            text, end = _decode_text(data, at)
            return (text.decode("utf-8", "surrogatepass") if tag == 6 else text), end
        if tag == 8:
            items = []
            while data[at] != 1:
                item, at = self.decode(data, at)
                items.append(item)
            return tuple(items), at + 1
        raise errors.CorruptData(f"a stored namespace has the unknown type tag {tag}")


NAMESPACES: KeyCodec = _AnyCodec()
"""Codec of namespaces (None = the default one)."""


_UNAMBIGUOUS: Final = frozenset({str, bytes, type(None)})


class TypedNamespace:
    """A namespace that Python takes for another one, which is stored in another way: 1, True and 1.0 are equal. It
    stands for such a one wherever namespaces are compared. Two of them are equal if their stored forms are.
    """

    __slots__ = ("stored", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.stored = NAMESPACES.encode(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is TypedNamespace and self.stored == other.stored

    def __hash__(self) -> int:
        return hash(self.stored)

    def __repr__(self) -> str:
        return repr(self.value)


def told_apart(namespace: Any) -> Any:
    """The namespace as it is compared with others. For whole numbers and text it need not be called."""
    # Windows are tuples of a class of their own. With `type(namespace) is tuple` they went the way of `any`, which
    # takes 1.4 µs instead of 0.4, several times a record: an eighth of the time of windows per record.
    if isinstance(namespace, tuple):
        for item in namespace:
            if type(item) is not int and type(item) not in _UNAMBIGUOUS:
                break
        else:
            return namespace
    return TypedNamespace(namespace) if _is_ambiguous(namespace) else namespace


def as_given(namespace: Any) -> Any:
    """The inverse of :func:`told_apart`."""
    return namespace.value if type(namespace) is TypedNamespace else namespace


def decode_namespace(data: bytes, at: int = 0) -> tuple[Any, int]:
    """A stored namespace as it is compared with others, and the offset behind it."""
    namespace, end = NAMESPACES.decode(data, at)
    return told_apart(namespace), end


def _is_ambiguous(namespace: Any) -> bool:
    """Whether another type has an equal value. Of the three that have, whole numbers are by far the most frequent
    namespaces, and stay as they are."""
    if isinstance(namespace, bool):
        return True
    if isinstance(namespace, float):
        return namespace.is_integer()
    return isinstance(namespace, tuple) and any(map(_is_ambiguous, namespace))


def require_namespace(namespace: Any) -> None:
    """Raise ``SerializationError`` for what can be no namespace of new entries. NaN equals nothing, so nobody would
    find them again; the codec takes it, because older versions have stored it."""
    namespace = as_given(namespace)
    NAMESPACES.encode(namespace)
    items = namespace if isinstance(namespace, tuple) else (namespace,)
    for item in items:
        if isinstance(item, tuple):
            require_namespace(item)
        elif isinstance(item, float) and math.isnan(item):
            raise errors.SerializationError(f"{namespace!r} cannot be a namespace; {_NAMESPACES_ARE}")
