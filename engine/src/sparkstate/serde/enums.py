"""ENUM: one of a list of constants, known by name.

Theory. Bytes have a constant's number, which is its place in the type's own description, so a constant that is added at
the end changes no bytes. Descriptions have names alone: a snapshot is read without the author's class, and then a value
is its name. So that a store holds the same with and without the class, a value is *stored* as its bytes, as those of
mutable types are (``typeinfo``), and these are one object for all values of a constant.

Keys are different. Their bytes have the name as text, because a key's bytes are its place and have to outlive a change
of the order; their normalised form is the name, and ``thaw_key`` makes it a member.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sparkstate import errors
from sparkstate.serde import containers, earlier_names
from sparkstate.serde.typeinfo import SCHEMA_PREFIX, TypeInformation, pack_bytes

EnumClass: TypeAlias = type[enum.Enum]


class EnumType(TypeInformation):
    """ENUM. A value is a member of ``enum_class``, or text where there is no class; names are taken in either case.

    ``aliases``, ``default`` and ``dropped`` say what becomes of values that were stored when the enum had other
    constants (``enum_changes``). They do not belong to the type.
    """

    is_immutable = False
    is_key_type = True
    wire = int
    aliases: Mapping[str, tuple[str, ...]] = {}
    """Earlier names of a constant."""
    default: str | None = None
    """The constant of values whose own is gone; None: such values are refused."""
    dropped: tuple[str, ...] = ()
    """Earlier constants that this enum does without on purpose."""

    def __init__(self, constants: Sequence[str], enum_class: EnumClass | None = None) -> None:
        self.constants = tuple(constants)
        self.enum_class = enum_class
        self._described = f"ENUM<{','.join(map(json.dumps, self.constants))}>"
        self._values: tuple[Any, ...] = self.constants
        if enum_class is not None:
            self._values = tuple(enum_class[name] for name in self.constants)
            self.thaw_key = self._value_of_name
        self._numbers = {name: number for number, name in enumerate(self.constants)}
        self._stored = {name: SCHEMA_PREFIX + pack_bytes(number) for name, number in self._numbers.items()}
        self._shared = {stored: stored for stored in self._stored.values()}
        self._thawed = dict(zip(self._stored.values(), self._values, strict=True))

    def evolving(
        self, aliases: Mapping[Any, str | Sequence[str]], default: Any, dropped: Sequence[str]
    ) -> EnumType:
        """This type with what ``Types.ENUM`` says of earlier constants. Raises ``StateError`` for contradictions."""
        by_name = {key._name_ if isinstance(key, enum.Enum) else key: old for key, old in aliases.items()}
        made = EnumType(self.constants, self.enum_class)
        made.aliases, made.dropped = earlier_names.checked(
            "enum", "constant", self.constants, by_name, dropped
        )
        if default is not None:
            try:
                made.default = self.normalize(default)
            except errors.SerializationError:
                raise errors.StateError(
                    f"default={default!r}: the enum has no such constant; its constants are {list(self.constants)}"
                ) from None
        return made

    def describe(self) -> str:
        return self._described

    def normalize(self, value: Any) -> str:
        """The name of the constant."""
        kind = type(value)
        if kind is self.enum_class:
            return str(value._name_)
        if isinstance(value, str) and not isinstance(value, enum.Enum):
            name = value if kind is str else "".join(value)
            if name in self._numbers:
                return name
        raise self.refuse(value)

    def pack(self, value: Any) -> int:
        return self._numbers[value]

    def unpack(self, packed: Any) -> Any:
        if 0 <= packed < len(self._values):
            return self._values[packed]
        raise ValueError(f"it has {len(self._values)} constants, and none has the number {packed}")

    def freeze(self, value: Any) -> bytes:
        if type(value) is self.enum_class:
            return self._stored[value._name_]
        return self._stored[self.normalize(value)]

    def thaw(self, stored: Any) -> Any:
        found = self._thawed.get(stored)
        return self._decode_value(stored) if found is None else found

    def decode(self, data: bytes) -> Any:
        """As of every type, but equal bytes are one object, so that a restored store takes no more memory than one
        that was filled by a job."""
        return self._shared.get(data, data) if data else None

    def plain(self) -> EnumType:
        if self.enum_class is None:
            return self
        made = EnumType(self.constants)
        made.aliases, made.default, made.dropped = self.aliases, self.default, self.dropped
        return made

    def _value_of_name(self, name: Any) -> Any:
        number = self._numbers.get(name)
        if number is None:
            raise errors.CorruptData(f"a stored map key is not of type {self.describe()}: {name!r}")
        return self._values[number]

    def refuse(self, value: Any) -> errors.SerializationError:
        wanted = "the name of a constant"
        if self.enum_class is not None:
            wanted = f"a member of {self.enum_class.__qualname__}, or the name of one"
        return errors.SerializationError(f"{super().refuse(value)}; give {wanted}")

    def __reduce__(self) -> Any:
        """By class and names: members are found again where it is unpickled."""
        return _rebuilt, (self.constants, self.enum_class, self.aliases, self.default, self.dropped)


def _rebuilt(
    constants: Sequence[str],
    enum_class: EnumClass | None,
    aliases: Mapping[str, tuple[str, ...]],
    default: str | None,
    dropped: tuple[str, ...],
) -> EnumType:
    made = EnumType(constants, enum_class)
    made.aliases, made.default, made.dropped = aliases, default, dropped
    return made


def of_constants(constants: Sequence[Any]) -> EnumType:
    """The type of the arguments of ``Types.ENUM``. Raises ``StateError`` for those that do not make an enum."""
    if len(constants) == 1 and isinstance(constants[0], type) and issubclass(constants[0], enum.Enum):
        enum_class = constants[0]
        if issubclass(enum_class, enum.Flag):
            raise errors.StateError(
                f"{enum_class.__qualname__} is a Flag, whose members are combined, and combinations have no name; "
                "declare Types.LONG(), and store the member's value"
            )
        constants = [member.name for member in enum_class]
        where = f"the enum {enum_class.__qualname__}"
    else:
        enum_class, where = None, f"ENUM({', '.join(map(repr, constants))})"
    for name in constants:
        # Half of a character would pass as a map key, and no column and no answer could hold it.
        if type(name) is not str or not name or name != name.encode(errors="ignore").decode():
            raise errors.StateError(
                f"{where}: {name!r} cannot be the name of a constant; give one Enum class, or a text for each constant"
            )
    if not constants or len(set(constants)) != len(constants):
        raise errors.StateError(
            f"{where} has no constants, or one of them twice; give each a name of its own"
        )
    return EnumType(constants, enum_class)


def is_within(key_type: TypeInformation) -> bool:
    """Whether a key type is an enum, or a tuple with one."""
    if isinstance(key_type, containers.TupleType):
        return any(map(is_within, key_type.fields))
    return isinstance(key_type, EnumType)
