"""The descriptions of keyed operators: frozen, made by the driver, carried to every slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.checkpoint.operator_parts import StoredState
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.connected_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from sparkstate.functions import MIN_WATERMARK, KeyedFunction, KeyedProcessFunction
from sparkstate.serde import enums
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state.descriptors import MapStateDescriptor


@dataclass(frozen=True, kw_only=True)
class KeyedSpec:
    """One keyed operator, whatever its function is called with."""

    uid: str
    """Its identity: state is restored by it."""
    row_columns: tuple[str, ...]
    """The columns of the row that the user's function sees."""
    key_columns: tuple[str, ...]
    """The columns of the incoming batch that hold the canonical key; they may be hidden ones."""
    combined_columns: tuple[str, ...] = ()
    """In place of ``row_columns`` in batches with ``columns.ROWS``: Spark has combined several rows into one."""
    key_type: TypeInformation
    """A scalar type for one key column, ``Types.TUPLE`` for more."""
    function: KeyedFunction
    event_time_column: str | None = None
    """int64 column, ms since the Unix epoch, may hold nulls. None: the operator has no event time."""
    output_schema: pa.Schema | None = None
    """Columns of the main output; None keeps rows as they were yielded (``Overlay.rows``)."""
    side_schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    """Columns of the side outputs, by tag id. Those of one that feeds another operator end with the hidden column
    ``columns.TIMESTAMP``, in which it gets what ``emit_timestamps`` says."""
    on_error: Literal["fail", "side-output"] = "fail"
    """The effect of an exception in the user's code: fail the epoch,
    or undo the record and send it to ``error_tag``."""
    error_tag: str = "errors"
    """Side output of rejected rows: the row's columns and ``error``, a string."""
    late_tag: str | None = None
    """Side output of rows whose event time is not after the watermark of the epoch before; None: they are processed.
    Where the function judges lateness, it sends there the rows that it finds late."""
    sort_by_event_time: bool = False
    """Process the rows of an epoch in order of event time (rows without one first), instead of as they came."""
    emit_timestamps: bool = False
    """Add the hidden column ``columns.TIMESTAMP`` to the main output: event time of the record or timer
    behind a row."""

    def __post_init__(self) -> None:
        if enums.is_within(self.key_type):
            raise errors.StateError(
                f"operator {self.uid!r}: {self.key_type.describe()} cannot be the type of a stream's keys: they come "
                "from columns, which have no enums, and Spark finds their key groups; key by the name, with "
                "Types.STRING()"
            )

    def columns_of(self, batch: pa.RecordBatch) -> tuple[str, ...]:
        """The columns that the user's function sees of a batch."""
        return self.combined_columns if columns.ROWS in batch.schema.names else self.row_columns

    @property
    def keeps_times(self) -> bool:
        """Whether an output has event times, so that they are noted row by row."""
        return self.emit_timestamps or any(
            columns.TIMESTAMP in each.names for each in self.side_schemas.values()
        )

    @property
    def rows_at_once(self) -> int:
        """As the contract says."""
        return 0

    @property
    def rows_wait_for_choice(self) -> bool:
        """As the contract says: nobody can undo what rows of a lost attempt did to a function's own variables."""
        return isinstance(self.function.author_object, CheckpointedFunction)

    @property
    def judges_lateness(self) -> bool:
        """Whether the function finds late rows, so that all rows are given to it."""
        return self.function.judges_lateness

    @property
    def late_tags(self) -> tuple[str | None, ...]:
        """The side outputs of late rows, by input."""
        return (self.late_tag,)


@dataclass(frozen=True, kw_only=True)
class RecordSpec(KeyedSpec):
    """An operator whose function is called for each row and for each timer."""

    function: KeyedProcessFunction | KeyedCoProcessFunction | KeyedBroadcastProcessFunction


@dataclass(frozen=True, kw_only=True)
class OperatorSpec(RecordSpec):
    """An operator whose function is called for each row."""

    function: KeyedProcessFunction


@dataclass(frozen=True, kw_only=True)
class PairedSpec(RecordSpec):
    """An operator with rows of two inputs. ``row_columns`` and ``late_tag`` are those of the first. In a batch, rows
    have the columns of both (``columns.of_input``), and ``columns.INPUT``."""

    second_columns: tuple[str, ...]
    second_late_tag: str | None = None
    second_error_tag: str = "errors2"
    """Side output of rejected rows of the second input. Broadcast rows are never rejected."""

    @property
    def columns_of_inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of the rows that the function sees, by input."""
        return self.row_columns, self.second_columns

    @property
    def late_tags(self) -> tuple[str | None, ...]:
        return self.late_tag, self.second_late_tag

    @property
    def error_tags(self) -> tuple[str, str]:
        """The side outputs of rejected rows, by input."""
        return self.error_tag, self.second_error_tag


@dataclass(frozen=True, kw_only=True)
class TwoInputSpec(PairedSpec):
    """An operator whose function is called for each row of two keyed streams."""

    function: KeyedCoProcessFunction


@dataclass(frozen=True, kw_only=True)
class BroadcastSpec(PairedSpec):
    """An operator of a keyed stream, the first input, and one whose rows come to every slot. The latter have
    ``columns.ORDER``, and a key group of the slot in place of one of their own."""

    function: KeyedBroadcastProcessFunction
    states: tuple[MapStateDescriptor, ...]
    """The broadcast states."""


@dataclass(frozen=True, kw_only=True)
class UnkeyedBroadcastSpec(BroadcastSpec):
    """The same where the rows of the first input have no keys: they have a key group of any slot, by which they find
    their way. ``key_columns`` is empty, and nothing is stored by ``key_type``."""

    function: BroadcastProcessFunction  # type: ignore[assignment]  # it has no on_timer, and nothing calls it


@dataclass(frozen=True, kw_only=True)
class BatchOperatorSpec(KeyedSpec):
    """An operator whose function is called with batches."""

    function: KeyedBatchFunction

    @property
    def rows_at_once(self) -> int:
        """Measured with 25,000 keys in an epoch: batches of 32,768 rows went through at 1.7 M rows/s, of 131,072 at
        4.5 M, of 262,144 at 5.6 M. Most of the work is per key and batch."""
        return 1 << 18


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """Facts that a function may ask of its job."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    """The manifest's ``params``."""
    attempt: int = 0
    """How many lives the state had before this one."""
    watermark: int = MIN_WATERMARK
    """That of the restored snapshot."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The part of a restore that one operator in one slot gets beside the stores."""

    checkpoint_id: int | None = None
    """The checkpoint or savepoint that the job's state is from; None: it began empty."""
    states: tuple[StoredState, ...] = ()
    """The operator state that was dealt to it."""
