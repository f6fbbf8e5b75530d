"""A ``KeyedCoProcessFunction`` in a test: as :class:`KeyedProcessHarness`, with rows of two inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from sparkstate.functions import MIN_WATERMARK, KeyedCoProcessFunction
from sparkstate.operators.spec import TwoInputSpec
from sparkstate.serde.row import Row
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.testing.harness import KeyedProcessHarness


class KeyedCoProcessHarness(KeyedProcessHarness):
    """Drives one function with two inputs by hand.

    >>> from sparkstate.functions import KeyedCoProcessFunction
    >>> from sparkstate.serde.types import Types
    >>> from sparkstate.state.descriptors import ValueStateDescriptor
    >>> class Named(KeyedCoProcessFunction):
    ...     def open(self, ctx):
    ...         self.name = ctx.get_state(ValueStateDescriptor("name", Types.STRING()))
    ...     def process_element1(self, person, ctx):
    ...         self.name.update(person.name)
    ...     def process_element2(self, visit, ctx):
    ...         yield self.name.value(), visit.page
    >>> with KeyedCoProcessHarness(Named(), key=lambda row: row.user, key_type=Types.LONG()) as harness:
    ...     harness.process_element1({"user": 1, "name": "Ada"})
    ...     harness.process_element2({"user": 1, "page": "/"})
    ...     harness.output()
    [('Ada', '/')]

    ``key`` gives the key of rows of both inputs, unless ``second_key`` gives that of the second's. ``options`` are
    those of ``KeyedProcessHarness``, and ``second_late_tag``.
    """

    def __init__(
        self,
        function: KeyedCoProcessFunction,
        *,
        key: Callable[[Any], Any],
        key_type: TypeInformation,
        second_key: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self._keys = (key, second_key or key)
        super().__init__(function, key=key, key_type=key_type, second_columns=(), **options)

    def process_element1(self, row: Any, timestamp: int | None = None) -> None:
        """Push one row of the first input."""
        self.process_rows_of_both([(0, row, timestamp)])

    def process_element2(self, row: Any, timestamp: int | None = None) -> None:
        """Push one row of the second input."""
        self.process_rows_of_both([(1, row, timestamp)])

    def process_rows_of_both(
        self, rows: Iterable[tuple[int, Any, int | None]], watermark: int | None = None
    ) -> None:
        """Push several (input, row, timestamp) as one epoch, at whose end event time moves on to ``watermark``. Inputs
        are 0 and 1. As in a job, rows of the first input are processed before those of the second; with
        ``sort_by_event_time``, in order of their times."""
        overlay = self._begin()
        spec: TwoInputSpec = self._spec  # type: ignore[assignment]
        kept: list[tuple[int, Any, int | None]] = []
        for number, element, timestamp in rows:
            row = Row.of(**element) if isinstance(element, dict) else element
            if timestamp is not None and MIN_WATERMARK < self._watermark >= timestamp:
                overlay.late_rows += 1
                tag = spec.late_tags[number]
                if tag is not None:
                    self._operator.put_side(overlay, tag, [row])
                    continue
            kept.append((number, row, timestamp))
        kept.sort(key=_by_time if spec.sort_by_event_time else _by_input)
        for number, group in itertools.groupby(kept, key=_by_input):
            together = list(group)
            keys = [self._normal_key(self._keys[number](row)) for _, row, _ in together]
            kgs = [self.key_group(key) for key in keys]
            stamps = [timestamp for _, _, timestamp in together]
            self._operator.process_rows(overlay, keys, kgs, stamps, [row for _, row, _ in together], number)
        self._end(overlay, watermark)

    def process_element(self, row: Any, timestamp: int | None = None) -> NoReturn:
        """Refused: a row is of one of the inputs."""
        raise TypeError("the function has two inputs; use process_element1 or process_element2")

    def process_elements(
        self, elements: Iterable[tuple[Any, int | None]], watermark: int | None = None
    ) -> NoReturn:
        """Refused: a row is of one of the inputs."""
        raise TypeError("the function has two inputs; use process_rows_of_both")


def _by_input(row: tuple[int, Any, int | None]) -> int:
    return row[0]


def _by_time(row: tuple[int, Any, int | None]) -> tuple[int, int]:
    return (MIN_WATERMARK if row[2] is None else row[2], row[0])
