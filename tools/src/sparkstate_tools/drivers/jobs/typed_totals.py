"""``totals`` in three versions, whose states have other types each time and the same output.

``params["version"]`` is 1, 2 or 3. ``params["fatal"]`` names a file: the slot that finds it deletes it and dies,
between the first state of an operator and the second.
"""

from __future__ import annotations

import enum
import os
import signal
from collections.abc import Iterator
from typing import Any

import totals

from sparkstate import ListStateDescriptor, Types, ValueStateDescriptor

OLD = "written by version 1"


def sum_type(version: int) -> Any:
    """The type of a key's sum."""
    if version == 1:
        return Types.ROW([Types.INT()])
    if version == 2:
        return Types.ROW_NAMED(["sum", "origin"], [Types.LONG(), Types.STRING()], defaults={"origin": OLD})
    return Types.ROW_NAMED(
        ["origins", "total"],
        [Types.LIST(Types.STRING()), Types.BIG_INT()],
        aliases={"total": "sum"},
        dropped=["origin"],
        defaults={"origins": ["version 2 or older"]},
    )


def row_type(version: int) -> Any:
    """The type of a row that was seen."""
    if version == 1:
        return Types.ROW_NAMED(["spare", "id"], [Types.STRING(), Types.LONG()])
    names = ["id"] if version == 2 else ["number", "day"]
    kinds = [Types.LONG()] if version == 2 else [Types.BIG_DEC(), Types.SQL_DATE()]
    aliases = {} if version == 2 else {"number": "id"}
    return Types.ROW_NAMED(names, kinds, aliases=aliases)


class SumKind(enum.Enum):
    """Of a sum, in version 1."""

    EVEN = "even"
    ODD = "odd"


class LaterSumKind(enum.IntEnum):
    """The same in version 2: in another order, and with a constant more."""

    NONE = -1
    ODD = 1
    EVEN = 0


def parity_type(version: int) -> Any:
    """The type of a sum's parity."""
    return Types.STRING() if version == 3 else Types.ENUM(SumKind if version == 1 else LaterSumKind)


class SumState:
    """The state of a sum, as the number that ``Totals`` wants; its parity is kept beside it."""

    def __init__(self, state: Any, parity: Any, version: int) -> None:
        self._state, self._parity, self._version = state, parity, version

    def value(self) -> int | None:
        stored = self._state.value()
        if stored is None:
            return None
        number = self._number(stored)
        assert self._parity.value() == self._parity_of(number), (self._parity.value(), number)
        return number

    def _parity_of(self, number: int) -> Any:
        name = "ODD" if number % 2 else "EVEN"
        return name if self._version == 3 else (SumKind if self._version == 1 else LaterSumKind)[name]

    def _number(self, stored: Any) -> int:
        if self._version == 1:
            return int(stored[0])
        if self._version == 2:
            assert stored.origin in (OLD, "version 2"), stored
            return int(stored.sum)
        assert stored.origins in (["version 2 or older"], ["version 3"]), stored
        return int(stored.total)

    def update(self, value: int) -> None:
        forms = {1: (value,), 2: (value, "version 2"), 3: (["version 3"], value)}
        self._state.update(forms[self._version])
        self._parity.update(self._parity_of(value))


class SeenState:
    """The state of rows that were seen, by their ids."""

    def __init__(self, state: Any, version: int) -> None:
        self._state, self._version = state, version

    def add(self, number: int) -> None:
        from decimal import Decimal

        forms = {1: ("spare", number), 2: (number,), 3: (Decimal(number), None)}
        self._state.add(forms[self._version])

    def get(self) -> Iterator[Any]:
        return iter(self._state.get())


class TypedTotals(totals.Totals):
    """Keeps the same in other types."""

    version = 1
    fatal = ""

    def open(self, ctx: Any) -> None:
        kinds = sum_type(self.version), row_type(self.version)
        total = ctx.get_state(ValueStateDescriptor("total", kinds[0]))
        try:
            if self.fatal:
                os.unlink(self.fatal)
                os.kill(os.getpid(), signal.SIGKILL)
        except FileNotFoundError:
            pass
        parity = ctx.get_state(ValueStateDescriptor("parity", parity_type(self.version)))
        self.total = SumState(total, parity, self.version)
        self.seen = SeenState(ctx.get_list_state(ListStateDescriptor("seen", kinds[1])), self.version)
        self.timer = ctx.get_state(
            ValueStateDescriptor("timer", Types.LONG() if self.version < 3 else Types.BIG_INT())
        )


def job(spark: Any, params: dict[str, str]) -> None:
    kind = type(
        "TypedTotals", (TypedTotals,), {"version": int(params["version"]), "fatal": params.get("fatal", "")}
    )
    totals.declare(totals.source(spark, params), params, kind)
