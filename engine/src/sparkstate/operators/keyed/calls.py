"""The calls of the user's code, and the record loop: the hot path of the engine.

The function object and its handles are one per operator, overlays are many. So an overlay is *bound* to them for the
time of a piece of work: the cursor and every handle then read and write it, and the loop sets nothing per record but
the number of the key and the time.

Per record there is one call, the user's. The callers of this do everything that can be done per batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkstate import errors, user_errors
from sparkstate.functions import MAX_WATERMARK, RuntimeContext
from sparkstate.operators.common import user_function
from sparkstate.operators.common.outputs import Outputs
from sparkstate.operators.spec import OperatorSpec, RecordSpec
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.handles import StateHandle
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay, undo
from sparkstate.operators.state.tables import OperatorTables


class RecordCalls:
    """All but the loop. Not thread-safe: one piece of work at a time."""

    def __init__(self, spec: RecordSpec, tables: OperatorTables, operator_states: OperatorStates) -> None:
        self.spec = spec
        self.tables = tables
        self._operator_states = operator_states
        self.outputs = Outputs(spec)
        self.cursor = Cursor()

    # --- life

    def open(self, context: RuntimeContext) -> None:
        """Open the function, which declares its state."""
        user_function.open_with(self.spec.function, context, self.spec.uid)

    def finish(self, overlay: Overlay, handles: Iterable[StateHandle]) -> None:
        """The input has ended: call ``finish`` and put out what it yields. There is no key."""
        self.bind(overlay, MAX_WATERMARK)
        self.without_key(handles)
        function = self.spec.function
        yielded = user_function.calling(
            self.spec.uid,
            f"epoch {overlay.epoch}: finish()",
            lambda: list(self.outputs.kept(function.finish() or ())),
        )
        stamps = [None] * len(yielded) if self.spec.keeps_times else None
        self.outputs.put(overlay, yielded, stamps)

    def close(self, handles: Iterable[StateHandle]) -> None:
        """Close the function, which no longer has a key; ``handles`` are all that it was given."""
        self.without_key(handles)
        user_function.close(self.spec.function, self.spec.uid)

    def without_key(self, handles: Iterable[StateHandle]) -> None:
        """There is no key: cursor and handles refuse to be used."""
        self.cursor.unbind()
        for handle in handles:
            handle.unbind()

    def bind(self, overlay: Overlay, watermark: int) -> None:
        """Point cursor, handles and timer service at this overlay."""
        cursor = self.cursor
        cursor.keys, cursor.kgs = overlay.known.keys, overlay.known.kgs
        cursor.journal = [] if self.spec.on_error == "side-output" else None
        cursor.stamps = [] if self.spec.keeps_times else None
        cursor.late_rows = 0
        cursor.service.bind(overlay, watermark)
        for handle, table in zip(self.tables.handles, overlay.tables, strict=True):
            handle.bind(table)
        if cursor.namespaced:  # of a piece of work that was broken off by an error
            cursor.reset_namespaces()
        self._operator_states.bind(overlay.operator_changes)

    def stamps(self, usual: int | None, count: int) -> list[int | None]:
        """The event times of the last ``count`` rows that were yielded: the function's own, or the usual one."""
        own = self.cursor.stamps
        if not own:
            return [usual] * count
        given = own[:count]
        own.clear()
        return given

    def count_late_rows(self, overlay: Overlay) -> None:
        """Count the rows that the function has found late."""
        overlay.late_rows += self.cursor.late_rows
        self.cursor.late_rows = 0

    # --- what the user's code raises

    def undo_record(self, yielded: list[Any], length: int) -> None:
        """Put back all that the current record or timer changed or put out."""
        del yielded[length:]
        if self.cursor.stamps:
            self.cursor.stamps.clear()
        if self.cursor.journal is not None:
            undo(self.cursor.journal)

    def reject(self, overlay: Overlay, rejected: list[Any], stamps: list[int | None]) -> None:
        """Send rejected rows (columns and error) to the error output, with the event time of each."""
        if rejected:
            self.outputs.put_side(overlay, self.spec.error_tag, rejected, stamps)

    def user_error(self, overlay: Overlay, error: BaseException, where: str) -> Exception:
        """The error to raise for an exception within the user's code: its own, unless the engine failed beneath it."""
        if isinstance(error, errors.SparkstateError) and not isinstance(error, errors.StateError):
            return error
        return errors.UserCodeError(
            f"operator {self.spec.uid!r}, key {self.cursor.get_current_key()!r}, epoch {overlay.epoch}, {where}: "
            f"{user_errors.describe(error)}"
        )


class Calls(RecordCalls):
    """The loop over the rows of one input."""

    spec: OperatorSpec

    def run(self, overlay: Overlay, records: Iterable[tuple[int, int | None, Any]]) -> None:
        """Call the function for each record (number of its key, event time, row), and put out what it yields. The
        overlay is bound."""
        yielded: list[Any] = []
        emitted: list[int | None] | None = None
        if self.spec.on_error == "side-output" or self.spec.keeps_times:
            emitted = self._loop_with_care(overlay, records, yielded)
        else:
            self._loop(overlay, records, yielded)
        self.count_late_rows(overlay)
        self.outputs.put(overlay, yielded, emitted)

    def _loop(
        self, overlay: Overlay, records: Iterable[tuple[int, int | None, Any]], yielded: list[Any]
    ) -> None:
        cursor = self.cursor
        process = self.spec.function.process_element
        append, plain, copied = yielded.append, self.outputs.plain, self.outputs.copied
        row: Any = None
        try:
            for cursor.number, cursor.stamp, row in records:
                result = process(row, cursor)
                if result is not None:
                    for item in result:
                        append(item if type(item) in plain else copied(item))
                if cursor.namespaced:
                    cursor.reset_namespaces()
        except user_function.RAISED as error:
            raise self.user_error(overlay, error, f"row {user_function.shorten(row)}") from error

    def _loop_with_care(
        self, overlay: Overlay, records: Iterable[tuple[int, int | None, Any]], yielded: list[Any]
    ) -> list[int | None] | None:
        """The loop for operators that may reject records, or emit timestamps."""
        cursor = self.cursor
        process = self.spec.function.process_element
        append, plain, copied = yielded.append, self.outputs.plain, self.outputs.copied
        emitted: list[int | None] = []
        rejected: list[Any] = []
        rejected_at: list[int | None] = []
        for cursor.number, cursor.stamp, row in records:
            before = len(yielded)
            try:
                result = process(row, cursor)
                if result is not None:
                    for item in result:
                        append(item if type(item) in plain else copied(item))
            except user_function.RAISED as error:
                failure = self.user_error(overlay, error, f"row {user_function.shorten(row)}")
                if self.spec.on_error == "fail" or isinstance(failure, errors.UserCodeError) is False:
                    raise failure from error
                self.undo_record(yielded, before)
                rejected.append((*(row if isinstance(row, tuple) else (row,)), str(failure)))
                rejected_at.append(cursor.stamp)
            if cursor.journal:
                cursor.journal.clear()
            if cursor.namespaced:
                cursor.reset_namespaces()
            emitted.extend(self.stamps(cursor.stamp, len(yielded) - before))
        self.reject(overlay, rejected, rejected_at)
        return emitted if self.spec.keeps_times else None
