"""``Types``: PyFlink's names for the types of keys and values, and the parser of their stable descriptions."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sparkstate import errors
from sparkstate.serde import containers, enums, expiring, packed, scalars
from sparkstate.serde.typeinfo import TypeInformation

__all__ = ["TypeInformation", "Types", "parse"]


class Types:
    """Factories with PyFlink's names, e.g. ``Types.MAP(Types.STRING(), Types.LONG())``."""

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """``bool``."""
        return scalars.BooleanType("BOOLEAN")

    @staticmethod
    def BYTE() -> TypeInformation:
        """``int`` of 8 bits."""
        return scalars.IntegerType("BYTE", 8)

    @staticmethod
    def SHORT() -> TypeInformation:
        """``int`` of 16 bits."""
        return scalars.IntegerType("SHORT", 16)

    @staticmethod
    def INT() -> TypeInformation:
        """``int`` of 32 bits."""
        return scalars.IntegerType("INT", 32)

    @staticmethod
    def LONG() -> TypeInformation:
        """``int`` of 64 bits."""
        return scalars.IntegerType("LONG", 64)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """``float``; kept with Python's 64 bits."""
        return scalars.FloatType("FLOAT")

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """``float``."""
        return scalars.FloatType("DOUBLE")

    @staticmethod
    def CHAR() -> TypeInformation:
        """``str`` of one character."""
        return scalars.StringType("CHAR")

    @staticmethod
    def STRING() -> TypeInformation:
        """``str``."""
        return scalars.StringType("STRING")

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """``int`` of up to 4,000 decimal digits."""
        return scalars.BigIntegerType("BIG_INT")

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """``decimal.Decimal``."""
        return scalars.DecimalType("BIG_DEC")

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """``datetime.date``."""
        return scalars.DateType("SQL_DATE")

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """``datetime.time`` without a zone."""
        return scalars.TimeType("SQL_TIME")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """``datetime.datetime`` without a zone; a ``pandas.Timestamp`` is cut to microseconds."""
        return scalars.TimestampType("SQL_TIMESTAMP", zoned=False)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """``datetime.datetime`` with a zone; comes back in UTC. A ``pandas.Timestamp`` is cut to microseconds."""
        return scalars.TimestampType("INSTANT", zoned=True)

    @staticmethod
    def ENUM(
        *constants: type[enum.Enum] | str,
        aliases: Mapping[Any, str | Sequence[str]] | None = None,
        default: Any = None,
        dropped: Sequence[str] = (),
    ) -> TypeInformation:
        """A member of an ``enum.Enum`` class, ``Types.ENUM(Color)``, stored as the number of its constant; or text,
        one of ``Types.ENUM("RED", "GREEN")``. Names of members may be written in place of members. A stream cannot be
        keyed by an enum.

        The rest is for values that were stored when the enum had other constants (docs/schema-evolution.md).
        ``aliases``: earlier names of a constant, ``{"CRIMSON": "RED"}``. ``default``: the constant of stored values
        whose own is gone; without it, a job whose enum lacks a stored constant does not start. ``dropped``: earlier
        constants that are gone. It is needed only where other constants are new, so that a renamed constant is not
        taken for a dropped and a new one.
        """
        made = enums.of_constants(constants)
        if aliases or default is not None or dropped:
            return made.evolving(aliases or {}, default, dropped)
        return made

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object, by pickle: reading it runs code. Never a key."""
        return containers.PickledType()

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """``tuple`` of these fields, none null."""
        return containers.TupleType(field_types)

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """``Row`` of these fields, by position."""
        return containers.RowType(field_types)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str],
        field_types: Sequence[TypeInformation],
        *,
        aliases: Mapping[str, str | Sequence[str]] | None = None,
        defaults: Mapping[str, Any] | None = None,
        dropped: Sequence[str] = (),
    ) -> TypeInformation:
        """``Row`` of these fields, by name.

        The rest is for rows that were stored with other fields (docs/schema-evolution.md). ``aliases``: earlier names
        of a field, ``{"total": "amount"}`` or ``{"total": ["amount", "sum"]}``. ``defaults``: the values of fields that
        stored rows do not have; without one, it is null. ``dropped``: earlier fields that are gone. It is needed only
        where other fields are new, so that a renamed field is not taken for a dropped and a new one.
        """
        made = containers.RowType(field_types, field_names)
        if aliases or defaults or dropped:
            return made.evolving(aliases or {}, defaults or {}, dropped)
        return made

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """``list``, no element null."""
        return containers.ListType("LIST", element_type_info)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """``list`` of numbers or booleans; of ``BYTE``: ``bytes``."""
        if element_type.describe() == "BYTE":
            return scalars.BytesType()
        return containers.ListType("PRIMITIVE_ARRAY", element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """``list`` of scalars, elements may be null."""
        return containers.ListType("BASIC_ARRAY", element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """``list`` of anything, elements may be null."""
        return containers.ListType("OBJECT_ARRAY", element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """``dict``; values may be null."""
        return containers.MapType(key_type_info, value_type_info)


Scalars: TypeAlias = Mapping[str, Callable[[], TypeInformation]]
"""Types without arguments, by their descriptions."""
_SCALARS: Final[Scalars] = {
    name: getattr(Types, name)
    for name in (
        "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "STRING", "BIG_INT", "BIG_DEC",
        "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT", "PICKLED_BYTE_ARRAY",
    )
}  # fmt: skip
_ONE_ARGUMENT: Final = ("LIST", "PRIMITIVE_ARRAY", "BASIC_ARRAY", "OBJECT_ARRAY")


WITHOUT_PICKLE: Final[Scalars] = {**_SCALARS, "PICKLED_BYTE_ARRAY": containers.UnreadValueType}
"""For readers that must not run code: pickled objects are ``containers.UnreadValue``."""


def parse(description: str, scalars: Scalars = _SCALARS) -> TypeInformation:
    """The type of a stable description (inverse of ``TypeInformation.describe``)."""
    ttl, description = expiring.split(description)
    found = _parse_all(description, scalars)
    return found if ttl is None else expiring.ExpiringType(found, ttl)


def _parse_all(description: str, scalars: Scalars) -> TypeInformation:
    try:
        found, end = _parse(description, 0, scalars)
    except (
        ValueError, IndexError, TypeError, AttributeError, RecursionError, errors.StateError
    ) as error:  # fmt: skip
        raise errors.CorruptData(f"{description[:200]!r} does not describe a type") from error
    if end != len(description):
        raise errors.CorruptData(
            f"{description!r} does not describe a type: unexpected {description[end:]!r}"
        )
    return found


def _parse(text: str, at: int, scalars: Scalars) -> tuple[TypeInformation, int]:
    end = at
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    name = text[at:end]
    if name in scalars:
        return scalars[name](), end
    if text[end] != "<":
        raise ValueError(name)
    if name == "ENUM":
        return _parse_enum(text, end + 1)
    names, arguments, end = _parse_arguments(text, end + 1, scalars)
    if name == "ROW":
        return containers.RowType(arguments, names or None), end
    if name == "TUPLE":
        return containers.TupleType(arguments), end
    if name == "PACKED":
        return packed.PackedType(names, arguments), end
    if name == "MAP":
        key, value = arguments
        return containers.MapType(key, value), end
    if name in _ONE_ARGUMENT:
        (element,) = arguments
        made: TypeInformation = getattr(Types, name)(element)
        return made, end
    raise ValueError(name)


def _parse_enum(text: str, at: int) -> tuple[TypeInformation, int]:
    names: list[str] = []
    while not names or text[at] == ",":
        constant, at = json.JSONDecoder().raw_decode(text, at if not names else at + 1)
        names.append(constant)
    if (
        text[at] != ">"
        or not all(type(each) is str and each for each in names)
        or len(set(names)) < len(names)
    ):
        raise ValueError(text)
    return enums.EnumType(names), at + 1


def _parse_arguments(text: str, at: int, scalars: Scalars) -> tuple[list[str], list[TypeInformation], int]:
    names: list[str] = []
    arguments: list[TypeInformation] = []
    while text[at] != ">":
        if text[at] == ",":
            at += 1
        if text[at] == '"':
            field, at = json.JSONDecoder().raw_decode(text, at)
            names.append(field)
            at += 1  # the colon
        argument, at = _parse(text, at, scalars)
        arguments.append(argument)
    return names, arguments, at + 1
