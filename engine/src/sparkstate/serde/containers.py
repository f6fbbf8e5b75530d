"""Types made of other types, and pickle."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cloudpickle

from sparkstate import errors
from sparkstate.serde import earlier_names, expiring, row
from sparkstate.serde.typeinfo import TypeInformation


class TupleType(TypeInformation):
    """TUPLE: a fixed number of fields of fixed types, none of them null. Immutable when all its fields are."""

    def __init__(self, fields: Sequence[TypeInformation]) -> None:
        self.fields = tuple(fields)
        self.is_immutable = all(field.is_immutable for field in self.fields)
        self.has_text = any(field.has_text for field in self.fields)
        self.is_key_type = bool(self.fields) and all(field.is_key_type for field in self.fields)
        self.wire = tuple[tuple(field.wire for field in self.fields)] if self.fields else tuple[()]  # type: ignore[misc]
        if any(field.thaw_key is not None for field in self.fields):
            self.thaw_key = self._thaw_key

    def describe(self) -> str:
        return f"TUPLE<{','.join(field.describe() for field in self.fields)}>"

    def normalize(self, value: Any) -> tuple[Any, ...]:
        return tuple(field.normalize(item) for field, item in self._with_fields(value))

    def normalize_key(self, key: Any) -> tuple[Any, ...] | None:
        if key is None:
            return None
        return tuple(field.normalize_key(item) for field, item in self._with_fields(key))

    @functools.cached_property
    def normalize_map_key(self) -> Callable[[Any], Any]:
        if all(field.normalize_map_key == field.normalize for field in self.fields):
            return self.normalize
        return self._with_fields_of_keys

    def _with_fields_of_keys(self, key: Any) -> tuple[Any, ...]:
        return tuple(field.normalize_map_key(item) for field, item in self._with_fields(key))

    def _with_fields(self, value: Any) -> Iterator[tuple[TypeInformation, Any]]:
        """Each field of a value with its type. Raises ``SerializationError`` unless it is a tuple of this length."""
        if not isinstance(value, (tuple, list)) or len(value) != len(self.fields):
            raise self.refuse(value)
        return zip(self.fields, value, strict=True)

    def pack(self, value: Any) -> tuple[Any, ...]:
        return tuple(field.pack(item) for field, item in zip(self.fields, value, strict=True))

    def unpack(self, packed: Any) -> tuple[Any, ...]:
        return tuple(field.unpack(item) for field, item in zip(self.fields, packed, strict=True))

    def plain(self) -> TypeInformation:
        return TupleType([field.plain() for field in self.fields])

    def _thaw_key(self, key: Any) -> Any:
        return tuple(
            item if item is None or field.thaw_key is None else field.thaw_key(item)
            for field, item in zip(self.fields, key, strict=True)
        )


class RowType(TypeInformation):
    """ROW and ROW_NAMED: fields may be null. A value is a ``Row``. Tuples and lists are taken by position, other rows
    and dicts by name.

    ``aliases``, ``defaults`` and ``dropped`` say how a row that was stored with other fields becomes one of these
    (``evolution``). They do not belong to the type.
    """

    aliases: Mapping[str, tuple[str, ...]] = {}
    """Earlier names of a field."""
    defaults: Mapping[str, Any] = {}
    """Values of fields that the stored row does not have, normalised."""
    dropped: tuple[str, ...] = ()
    """Earlier fields that this row does without on purpose."""

    def __init__(self, fields: Sequence[TypeInformation], names: Sequence[str] | None = None) -> None:
        if names is not None and (len(names) != len(fields) or len(set(names)) != len(names)):
            raise errors.StateError(
                f"a row needs one name of its own for each of its {len(fields)} fields: {names!r}"
            )
        self.fields = tuple(fields)
        self.names = tuple(names) if names is not None else None
        self.is_immutable = all(field.is_immutable for field in self.fields)
        self.has_text = any(field.has_text for field in self.fields)
        self.wire = tuple[tuple(field.wire | None for field in self.fields)] if self.fields else tuple[()]  # type: ignore[misc]
        self._make: Any = row.row_class(self.names) if self.names is not None else row.Row

    def evolving(
        self,
        aliases: Mapping[str, str | Sequence[str]],
        defaults: Mapping[str, Any],
        dropped: Sequence[str],
    ) -> RowType:
        """This type with what ``Types.ROW_NAMED`` says of earlier fields. Raises ``StateError`` for contradictions."""
        names = self.names or ()
        made = RowType(self.fields, self.names)
        made.aliases, made.dropped = earlier_names.checked("row", "field", names, aliases, dropped)
        earlier_names.require_parts("defaults", "row", "field", names, defaults)
        made.defaults = {
            name: None if value is None else self.fields[names.index(name)].normalize(value)
            for name, value in dict(defaults).items()
        }
        return made

    def describe(self) -> str:
        parts = [field.describe() for field in self.fields]
        if self.names is not None:
            parts = [f"{json.dumps(name)}:{part}" for name, part in zip(self.names, parts, strict=True)]
        return f"ROW<{','.join(parts)}>"

    def normalize(self, value: Any) -> row.Row:
        if isinstance(value, Mapping) and self.names is not None and set(value) == set(self.names):
            value = [value[name] for name in self.names]
        elif type(value) is not tuple and isinstance(value, tuple) and self.names is not None:
            value = self._arranged(value, self.names)
        if not isinstance(value, (tuple, list)) or len(value) != len(self.fields):
            raise self.refuse(value)
        return self._map(value, "normalize")

    def _arranged(self, value: tuple[Any, ...], names: tuple[str, ...]) -> Sequence[Any]:
        found = row.arranged(value, names)
        if found is None:
            raise self.refuse(value)
        return found

    def pack(self, value: Any) -> tuple[Any, ...]:
        return tuple(self._map(value, "pack"))

    def unpack(self, packed: Any) -> row.Row:
        return self._map(packed, "unpack")

    def plain(self) -> TypeInformation:
        made = RowType([field.plain() for field in self.fields], self.names)
        made.aliases, made.defaults, made.dropped = self.aliases, self.defaults, self.dropped
        return made

    def _map(self, values: Sequence[Any], method: str) -> row.Row:
        made: row.Row = self._make(
            None if item is None else getattr(field, method)(item)
            for field, item in zip(self.fields, values, strict=True)
        )
        return made


class ListType(TypeInformation):
    """LIST and the array types: a Python list. Arrays of objects may hold nulls, lists and primitive arrays may not."""

    is_immutable = False

    def __init__(self, name: str, element: TypeInformation) -> None:
        self.name = name
        self.element = element
        # Pickle takes None as a value, in a list too.
        self._nullable = name in ("BASIC_ARRAY", "OBJECT_ARRAY") or isinstance(element, PickledType)
        self.wire = list[element.wire | None] if self._nullable else list[element.wire]  # type: ignore[name-defined]

    def describe(self) -> str:
        return f"{self.name}<{self.element.describe()}>"

    def normalize(self, value: Any) -> list[Any]:
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise self.refuse(value)
        if self._nullable:
            return [None if item is None else self.element.normalize(item) for item in value]
        return [self.element.normalize(item) for item in value]

    def pack(self, value: Any) -> list[Any]:
        return [None if item is None else self.element.pack(item) for item in value]

    def unpack(self, packed: Any) -> list[Any]:
        return [None if item is None else self.element.unpack(item) for item in packed]

    def plain(self) -> TypeInformation:
        return ListType(self.name, self.element.plain())


class MapType(TypeInformation):
    """MAP: a Python dict; values may be null, keys are key types. Written as pairs, in the dict's order."""

    is_immutable = False

    def __init__(self, key: TypeInformation, value: TypeInformation) -> None:
        if not key.is_key_type:
            raise errors.StateError(
                f"{key.describe()} cannot be the key type of a map; use a scalar or a tuple of scalars"
            )
        self.key = key
        self.value = value
        self.wire = list[tuple[key.wire, value.wire | None]]  # type: ignore[name-defined]

    def describe(self) -> str:
        return f"MAP<{self.key.describe()},{self.value.describe()}>"

    def normalize(self, value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise self.refuse(value)
        return {
            self.key.normalize(k): None if v is None else self.value.normalize(v) for k, v in value.items()
        }

    def pack(self, value: Any) -> list[Any]:
        return [(self.key.pack(k), None if v is None else self.value.pack(v)) for k, v in value.items()]

    def unpack(self, packed: Any) -> dict[Any, Any]:
        return {self.key.unpack(k): None if v is None else self.value.unpack(v) for k, v in packed}

    def plain(self) -> TypeInformation:
        return MapType(self.key.plain(), self.value.plain())


class PickledType(TypeInformation):
    """PICKLED_BYTE_ARRAY: any Python object, by pickle. Reading it runs code, so it is used only where declared.

    It is never a key, and tools that only read snapshots leave its bytes as they are.
    """

    is_immutable = False
    wire = bytes

    def describe(self) -> str:
        return "PICKLED_BYTE_ARRAY"

    def normalize(self, value: Any) -> Any:
        return value

    def pack(self, value: Any) -> bytes:
        try:
            return bytes(cloudpickle.dumps(value))
        except Exception as error:
            raise self.refuse(value) from error

    def unpack(self, packed: Any) -> Any:
        return pickle.loads(packed)


def holds_pickled(declared: TypeInformation) -> bool:
    """Whether values of this type are pickled, or hold pickled ones at any depth: reading them runs code."""
    if isinstance(declared, expiring.ExpiringType):
        return holds_pickled(declared.value_type)
    if isinstance(declared, (TupleType, RowType)):
        return any(map(holds_pickled, declared.fields))
    if isinstance(declared, ListType):
        return holds_pickled(declared.element)
    if isinstance(declared, MapType):
        return holds_pickled(declared.key) or holds_pickled(declared.value)
    return isinstance(declared, PickledType)


class UnreadValue(bytes):
    """A pickled object that nobody has read."""


class UnreadValueType(PickledType):
    """The same type for readers that must not run code: values are their bytes."""

    def unpack(self, packed: Any) -> UnreadValue:
        return UnreadValue(packed)
