"""``map``, ``flat_map``, ``filter`` and ``reduce``: one call of the author's function for each row.

An author passes a plain function, or an object of PyFlink's class of that name. The object's ``open`` is given the
runtime context, from which it may take keyed state, and its ``close`` is called at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from sparkstate import errors
from sparkstate.functions import Context, KeyedProcessFunction, ReduceFunction, RuntimeContext
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state.descriptors import ReducingStateDescriptor


class _Function:
    """The life of an author's object."""

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, before the first row. The place to ask for keyed state."""

    def close(self) -> None:
        """Called once at the end, also after a failure."""


class MapFunction(_Function, ABC):
    """One output row for each row."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The output row."""


class FlatMapFunction(_Function, ABC):
    """Any number of output rows for each row."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """The output rows; None for none."""


class FilterFunction(_Function, ABC):
    """Keeps some rows."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether the row stays."""


class _Wrapped(KeyedProcessFunction):
    """Around a plain function, or around the method ``name`` of an object of class ``kind``. Raises ``SpecInvalid`` if
    given anything else."""

    def __init__(self, given: Any, name: str, kind: type) -> None:
        if isinstance(given, type) or not (isinstance(given, kind) or callable(given)):
            raise errors.SpecInvalid(f"{name}({given!r}): pass a function, or a {kind.__name__} object")
        self._given = given
        self._call: Callable[..., Any] = getattr(given, name, given)

    @property
    def author_object(self) -> object:
        return self._given

    def open(self, ctx: RuntimeContext) -> None:
        if hasattr(self._given, "open"):
            self._given.open(ctx)

    def close(self) -> None:
        if hasattr(self._given, "close"):
            self._given.close()


class Map(_Wrapped):
    """``map``."""

    def __init__(self, given: MapFunction | Callable[[Any], Any]) -> None:
        super().__init__(given, "map", MapFunction)

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any]:
        made = self._call(value)
        if made is None:
            raise TypeError(
                "map returned None instead of a row: return a row, or (None,) for a null; "
                "to leave rows out, use flat_map or filter"
            )
        return (made,)


class FlatMap(_Wrapped):
    """``flat_map``."""

    def __init__(self, given: FlatMapFunction | Callable[[Any], Iterable[Any] | None]) -> None:
        super().__init__(given, "flat_map", FlatMapFunction)

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        found: Iterable[Any] | None = self._call(value)
        return found


class Filter(_Wrapped):
    """``filter``."""

    def __init__(self, given: FilterFunction | Callable[[Any], bool]) -> None:
        super().__init__(given, "filter", FilterFunction)

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        return (value,) if self._call(value) else None


class Reduce(_Wrapped):
    """``reduce``: the rows of a key so far, folded into one, after each row. ``row_type`` is the type of the rows."""

    def __init__(self, given: ReduceFunction | Callable[[Any, Any], Any], row_type: TypeInformation) -> None:
        super().__init__(given, "reduce", ReduceFunction)
        self._row_type = row_type

    def open(self, ctx: RuntimeContext) -> None:
        super().open(ctx)
        self._reduced = ctx.get_reducing_state(ReducingStateDescriptor("reduced", self._call, self._row_type))

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any]:
        self._reduced.add(value)
        return (self._reduced.get(),)
