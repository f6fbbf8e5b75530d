"""Functions of a broadcast stream in a test: as :class:`KeyedProcessHarness`, with rows that every subtask sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from sparkstate.connected_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from sparkstate.serde.row import Row
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import MapStateDescriptor
from sparkstate.testing.harness import KeyedProcessHarness


class KeyedBroadcastHarness(KeyedProcessHarness):
    """Drives one function by hand. ``states`` are the broadcast states of its stream.

    >>> from sparkstate.connected_functions import KeyedBroadcastProcessFunction
    >>> from sparkstate.serde.types import Types
    >>> LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
    >>> class Above(KeyedBroadcastProcessFunction):
    ...     def process_element(self, payment, ctx):
    ...         limit = ctx.get_broadcast_state(LIMITS).get(payment.method)
    ...         if limit is not None and payment.amount > limit:
    ...             yield payment.user, payment.amount
    ...     def process_broadcast_element(self, rule, ctx):
    ...         ctx.get_broadcast_state(LIMITS).put(rule.method, rule.limit)
    >>> with KeyedBroadcastHarness(
    ...     Above(), LIMITS, key=lambda row: row.user, key_type=Types.LONG(), parallelism=2
    ... ) as harness:
    ...     harness.process_broadcast_element({"method": "card", "limit": 5})
    ...     harness.process_element({"user": 1, "method": "card", "amount": 7})
    ...     harness.output(), harness.operator_state("limits", subtask=1)
    ([(1, 7)], {'card': 5})
    """

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        *states: MapStateDescriptor,
        key: Callable[[Any], Any],
        key_type: TypeInformation,
        **options: Any,
    ) -> None:
        super().__init__(function, key=key, key_type=key_type, second_columns=(), states=states, **options)

    def process_broadcast_element(self, row: Any, timestamp: int | None = None) -> None:
        """Push one row of the broadcast stream."""
        self.process_broadcast_elements([(row, timestamp)])

    def process_broadcast_elements(
        self, elements: Iterable[tuple[Any, int | None]], watermark: int | None = None
    ) -> None:
        """Push several (row, timestamp) as one epoch, at whose end event time moves on to ``watermark``."""
        found = [(Row.of(**row) if isinstance(row, dict) else row, stamp) for row, stamp in elements]
        stamps = [stamp for _, stamp in found]
        none: list[Any] = [None] * len(found)
        overlays = self._begin()
        for operator, overlay in zip(self._subtasks.operators, overlays, strict=True):
            operator.process_rows(overlay, none, none, stamps, [row for row, _ in found], 1)
        self._end(overlays, watermark)


class BroadcastHarness(KeyedBroadcastHarness):
    """Drives one ``BroadcastProcessFunction`` by hand. Rows of the stream without keys go to the subtasks in turn.

    >>> from sparkstate.connected_functions import BroadcastProcessFunction
    >>> LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
    >>> class Above(BroadcastProcessFunction):
    ...     def process_element(self, payment, ctx):
    ...         limit = ctx.get_broadcast_state(LIMITS).get(payment.method)
    ...         if limit is not None and payment.amount > limit:
    ...             yield payment.user, payment.amount
    ...     def process_broadcast_element(self, rule, ctx):
    ...         ctx.get_broadcast_state(LIMITS).put(rule.method, rule.limit)
    >>> with BroadcastHarness(Above(), LIMITS, parallelism=2) as harness:
    ...     harness.process_broadcast_element({"method": "card", "limit": 5})
    ...     harness.process_element({"user": 1, "method": "card", "amount": 7})
    ...     harness.process_element({"user": 1, "method": "card", "amount": 8})
    ...     harness.output()
    [(1, 7), (1, 8)]
    """

    def __init__(
        self, function: BroadcastProcessFunction, *states: MapStateDescriptor, **options: Any
    ) -> None:
        self._turns = itertools.count()
        super().__init__(function, *states, key=lambda row: None, key_type=Types.LONG(), **options)

    def _subtask_for(self, key: Any) -> int:
        return next(self._turns) % self._parallelism
