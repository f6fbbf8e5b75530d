"""A ``KeyedCoProcessFunction`` in a test: as :class:`KeyedProcessHarness`, with rows of two inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.spec import TwoInputSpec
from sparkstate.serde.row import Row
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.testing.harness import KeyedProcessHarness

_Record: TypeAlias = tuple[int, Any, Any, int | None]
"""Input, key, row, event time."""


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
        overlays = self._begin()
        spec: TwoInputSpec = self._spec  # type: ignore[assignment]
        kept: list[list[_Record]] = [[] for _ in overlays]
        for number, element, timestamp in rows:
            row = Row.of(**element) if isinstance(element, dict) else element
            key = self._normal_key(self._keys[number](row))
            subtask = self.subtask_of(key)
            if (
                not spec.judges_lateness
                and timestamp is not None
                and MIN_WATERMARK < self._watermark >= timestamp
            ):
                overlays[subtask].late_rows += 1
                tag = spec.late_tags[number]
                if tag is not None:
                    self._subtasks.operators[subtask].put_side(overlays[subtask], tag, [row])
                    continue
            kept[subtask].append((number, key, row, timestamp))
        for operator, overlay, records in zip(self._subtasks.operators, overlays, kept, strict=True):
            records.sort(key=_by_time if spec.sort_by_event_time else _by_input)
            for number, group in itertools.groupby(records, key=_by_input):
                _, keys, together, stamps = zip(*group, strict=True)
                kgs = [self.key_group(key) for key in keys]
                operator.process_rows(overlay, keys, kgs, stamps, together, number)
        self._end(overlays, watermark)

    def process_element(self, row: Any, timestamp: int | None = None) -> NoReturn:
        """Refused: a row is of one of the inputs."""
        raise TypeError("the function has two inputs; use process_element1 or process_element2")

    def process_elements(
        self, elements: Iterable[tuple[Any, int | None]], watermark: int | None = None
    ) -> NoReturn:
        """Refused: a row is of one of the inputs."""
        raise TypeError("the function has two inputs; use process_rows_of_both")


def _by_input(record: _Record) -> int:
    return record[0]


def _by_time(record: _Record) -> tuple[int, int]:
    return (MIN_WATERMARK if record[3] is None else record[3], record[0])
