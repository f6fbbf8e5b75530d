"""The calls of a function with two inputs: which of its methods a row goes to, and the record loop."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns, errors
from sparkstate.operators.common import user_function
from sparkstate.operators.keyed.calls import RecordCalls
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import PairedSpec, TwoInputSpec
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.serde import row as rows_module

Call: TypeAlias = Callable[[Any, Any], Iterable[Any] | None]
_PAIRS: Final = frozenset({tuple})


class PairedCalls(RecordCalls, abc.ABC):
    """Whatever the methods of the function are called. Not thread-safe: one piece of work at a time."""

    spec: PairedSpec
    stamps_rows = False
    """Whether the function yields the event time of each row with it, in pairs whose rows it has copied."""

    def __init__(self, spec: PairedSpec, tables: OperatorTables, operator_states: OperatorStates) -> None:
        super().__init__(spec, tables, operator_states)
        self.calls: tuple[Call, Call] = self._methods()
        """By input."""
        self._plain = _PAIRS if self.stamps_rows else self.outputs.plain
        """Classes of items that need no copy."""
        self._classes = [rows_module.row_class(names) for names in spec.columns_of_inputs]
        self._columns = [
            [columns.of_input(number, name) for name in names]
            for number, names in enumerate(spec.columns_of_inputs)
        ]

    @abc.abstractmethod
    def _methods(self) -> tuple[Call, Call]:
        """The method of the function for the rows of each input."""

    def of_batch(self, batch: pa.RecordBatch) -> tuple[Iterable[Call], Iterable[Any]]:
        """For each row the method to call, and the row."""
        inputs = batch.column(columns.INPUT)
        numbers = inputs.to_numpy(zero_copy_only=False)
        if (numbers == numbers[0]).all():
            number = int(numbers[0])
            return itertools.repeat(self.calls[number], batch.num_rows), self.rows(batch, number)
        each = [self.rows(batch.filter(pc.equal(inputs, number)), number) for number in range(2)]
        order: list[int] = numbers.tolist()
        return map(self.calls.__getitem__, order), (next(each[number]) for number in order)

    def rows(self, batch: pa.RecordBatch, number: int) -> Iterator[Any]:
        """Rows of one input, as the function sees them."""
        values = [arrow_rows.column_values(batch.column(name)) for name in self._columns[number]]
        return map(self._classes[number], zip(*values, strict=True))

    def run(self, overlay: Overlay, records: Iterable[tuple[int, int | None, Call, Any]]) -> None:
        """Call the method of each record (number of its key, event time, method, row), and put out what it yields. The
        overlay is bound."""
        yielded: list[Any] = []
        emitted: list[int | None] | None = [] if self.spec.keeps_times else None
        if self.spec.on_error == "side-output":
            self._loop_with_care(overlay, records, yielded, emitted)
        else:
            self._loop(overlay, records, yielded, emitted)
        self.count_late_rows(overlay)
        if self.stamps_rows:
            stamps = [stamp for stamp, _ in yielded]
            yielded, emitted = [row for _, row in yielded], emitted if emitted is None else stamps
        self.outputs.put(overlay, yielded, emitted)

    def _loop(
        self,
        overlay: Overlay,
        records: Iterable[tuple[int, int | None, Call, Any]],
        yielded: list[Any],
        emitted: list[int | None] | None,
    ) -> None:
        cursor = self.cursor
        append, plain, copied = yielded.append, self._plain, self.outputs.copied
        row: Any = None
        try:
            for cursor.number, cursor.stamp, call, row in records:
                before = len(yielded)
                result = call(row, cursor)
                if result is not None:
                    for item in result:
                        append(item if type(item) in plain else copied(item))
                if cursor.namespaced:
                    cursor.reset_namespaces()
                if emitted is not None:
                    emitted.extend([cursor.stamp] * (len(yielded) - before))
        except user_function.RAISED as error:
            raise self.user_error(overlay, error, f"row {user_function.shorten(row)}") from error

    def _loop_with_care(
        self,
        overlay: Overlay,
        records: Iterable[tuple[int, int | None, Call, Any]],
        yielded: list[Any],
        emitted: list[int | None] | None,
    ) -> None:
        """The loop for operators that may reject records: each goes, with its columns, to the output of its input."""
        cursor = self.cursor
        append, plain, copied = yielded.append, self._plain, self.outputs.copied
        rejected: tuple[list[Any], list[Any]] = ([], [])
        rejected_at: tuple[list[int | None], list[int | None]] = ([], [])
        for cursor.number, cursor.stamp, call, row in records:
            before = len(yielded)
            try:
                for item in call(row, cursor) or ():
                    append(item if type(item) in plain else copied(item))
            except user_function.RAISED as error:
                failure = self.user_error(overlay, error, f"row {user_function.shorten(row)}")
                if not isinstance(failure, errors.UserCodeError):
                    raise failure from error
                self.undo_record(yielded, before)
                number = call is self.calls[1]
                rejected[number].append((*row, str(failure)))
                rejected_at[number].append(cursor.stamp)
            if cursor.journal:
                cursor.journal.clear()
            if cursor.namespaced:
                cursor.reset_namespaces()
            if emitted is not None:
                emitted.extend([cursor.stamp] * (len(yielded) - before))
        for tag, rows, stamps in zip(self.spec.error_tags, rejected, rejected_at, strict=True):
            if rows:
                self.outputs.put_side(overlay, tag, rows, stamps)


class TwoInputCalls(PairedCalls):
    """Of a function of two keyed streams."""

    spec: TwoInputSpec

    def _methods(self) -> tuple[Call, Call]:
        function = self.spec.function
        self.stamps_rows = function.stamps_rows
        return function.process_element1, function.process_element2
