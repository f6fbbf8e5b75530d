"""A light immutable row: a tuple whose fields are also attributes.

The runtime makes one per record, so it is a ``namedtuple`` underneath (field access in C). Column names that
are no Python identifiers (``"air time"``) are reached by ``row["air time"]`` or ``getattr``.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any


class Row(tuple):  # type: ignore[type-arg]
    """Base of all rows. Equal to a plain tuple of the same values; ``row.name``, ``row["name"]`` and
    ``row[0]`` agree. ``Row(values)`` has no names, ``Row.of(a=1, b=2)`` has.

    There is no ``__new__`` here on purpose: a class without one is made from a tuple twice as fast.
    """

    __slots__ = ()
    __fields__: tuple[str, ...] = ()

    @staticmethod
    def of(**named: Any) -> Row:
        """A row with these fields."""
        return row_class(tuple(named))(named.values())

    def asDict(self) -> dict[str, Any]:  # PySpark's name
        """The row as a dict, in the order of its columns."""
        return dict(zip(self.__fields__, self, strict=False))

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            try:
                return tuple.__getitem__(self, self.__fields__.index(item))
            except ValueError:
                raise KeyError(item) from None
        return tuple.__getitem__(self, item)

    def __reduce__(self) -> Any:
        return _rebuild, (self.__fields__, tuple(self))

    def __repr__(self) -> str:
        if not self.__fields__:
            return f"Row{tuple(self)!r}"
        return "Row(" + ", ".join(f"{k}={v!r}" for k, v in zip(self.__fields__, self, strict=False)) + ")"


def _rebuild(fields: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return row_class(fields)(values) if fields else Row(values)


@functools.lru_cache(maxsize=1024)
def _row_class(fields: tuple[str, ...]) -> type[Row]:
    # namedtuple's field descriptors read the tuple in C; `rename` replaces the names that are no identifiers,
    # and the true names are put beside them.
    make_shape: Any = collections.namedtuple
    shape = make_shape("Row", fields, rename=True)
    members: dict[str, Any] = {
        name: shape.__dict__[renamed] for name, renamed in zip(fields, shape._fields, strict=True)
    }
    members["__slots__"] = ()
    members["__fields__"] = fields
    members["__module__"] = __name__
    return type("Row", (Row,), members)


def row_class(fields: Sequence[str]) -> type[Row]:
    """The class of rows with these fields; the same class for the same names. ``row_class(names)(values)``."""
    return _row_class(tuple(fields))


def names_of(value: Any) -> tuple[str, ...]:
    """The names that a tuple gives its values: those of a ``Row``, of PySpark's ``Row``, or of a named tuple; empty if
    it has none."""
    names = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
    return tuple(names) if isinstance(names, (tuple, list)) else ()


def arranged(values: tuple[Any, ...], names: tuple[str, ...]) -> Sequence[Any] | None:
    """The values of a tuple in the order of these names. A tuple without names is taken by position, and so is a named
    tuple whose names are others. None: a ``Row`` has other names."""
    own = names_of(values)
    if not own or own == names:
        return values
    if len(own) == len(names) and set(own) == set(names):
        return [values[own.index(name)] for name in names]
    return None if getattr(values, "__fields__", None) else values
