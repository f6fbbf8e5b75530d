"""The contract of an operator: all that a slot, the commit of an epoch and a harness for tests know of one.

An operator is a node of the job that keeps state in the stores of a slot. Operators are of several kinds, and each
kind has a room of its own (``keyed``, ``batches``); ``kinds`` finds the kind that a spec asks for. Nothing outside a
kind's room names its classes or asks which kind an operator is.

The work of an operator in an epoch lives in an *overlay*: ``begin`` gives an empty one, ``process_batch`` and
``finish`` write to it alone, and ``epoch.commit_overlays`` makes it state. Several attempts to bring its rows give
several overlays of one epoch; those that do not win are dropped without a trace. The rest of an overlay is between an
operator and its own overlays, so that a kind is free to choose its form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from sparkstate.backends.base import ShardStore, TableChanges, TimerTable
from sparkstate.checkpoint.operator_parts import Mode, StoredState
from sparkstate.functions import TimeDomain
from sparkstate.operators.user_metrics import UserMetrics
from sparkstate.serde.evolution import StateTypes

ShardChanges: TypeAlias = dict[int, list[TableChanges]]
"""By shard."""


@dataclass(frozen=True)
class EpochChanges:
    """The changes that an overlay wants written into the stores."""

    by_shard: ShardChanges = field(default_factory=dict)
    key_groups: Mapping[Any, int] = field(default_factory=dict)
    """The key group of every key in them."""


class StateImage(Protocol):
    """One operator state as it was at a snapshot, whatever changes since."""

    def encode(self) -> StoredState:
        """Its stored form; may be made in any thread."""


class Spec(Protocol):
    """The driver's description of an operator for a slot, whatever its kind. Specs are frozen, and travel pickled."""

    @property
    def uid(self) -> str:
        """Its identity: state is restored by it."""

    @property
    def output_schema(self) -> pa.Schema | None:
        """Columns of the main output; None keeps rows as they were yielded."""

    @property
    def side_schemas(self) -> Mapping[str, pa.Schema]:
        """Columns of the side outputs, by tag id."""

    @property
    def emit_timestamps(self) -> bool:
        """Whether the main output has the hidden column ``columns.TIMESTAMP`` behind its own."""

    @property
    def rows_at_once(self) -> int:
        """So many rows are worth waiting for, until the epoch ends: the operator does much once per batch. 0: rows are
        worked on as soon as they are there."""

    @property
    def rows_wait_for_choice(self) -> bool:
        """Whether the operator may be given rows only of the attempt that the driver has chosen: it does more with them
        than what the overlay holds."""


class EpochOverlay(Protocol):
    """The work of one attempt in one epoch, by one operator in one slot: changes that are not state yet, and output."""

    epoch: int
    rows_in: int
    late_rows: int
    timers_fired: int
    dropped_rows: int
    """Rows for side outputs that nothing in the job reads."""
    finished: bool
    """``Operator.finish`` is through; only then may it be committed."""
    committed: bool
    dropped: bool
    """Given up, or committed and forgotten: what still comes for it goes nowhere. Any thread may set it."""

    @property
    def unconverted(self) -> Mapping[str | None, Sequence[Any]]:
        """Rows of the outputs that have no schema, as they were yielded, by tag (None: the main output)."""

    def output(self, tag: str | None = None) -> Iterable[pa.RecordBatch]:
        """Batches of the main output (``None``) or of a side output; complete after ``finish``. Each call begins
        anew, and after ``finish`` several threads may read at the same time."""

    def row_count(self, tag: str | None = None) -> int:
        """Rows of that output."""

    def forget_state(self) -> None:
        """After the commit: keep the output alone."""

    def close(self) -> None:
        """Give up memory and disk. Closing twice is allowed."""


class Sweep(NamedTuple):
    """The removal of entries that have expired, at the end of one epoch."""

    removed: int = 0
    next_ms: int | None = None
    """The processing time from which the next one is worth an epoch of its own; None: there is nothing to remove before
    the next epoch with rows or timers."""

    def beside(self, other: Sweep) -> Sweep:
        """Both together."""
        nexts = [each for each in (self.next_ms, other.next_ms) if each is not None]
        return Sweep(self.removed + other.removed, min(nexts, default=None))


E = TypeVar("E", bound=EpochOverlay)
"""The overlays of one kind."""


class Operator(Protocol[E]):
    """One operator of one slot, over the stores of the slot's shards. Calls may come from several threads; it runs
    them one after another."""

    @property
    def spec(self) -> Spec:
        """The driver's description of it."""

    @property
    def stores(self) -> Mapping[int, ShardStore]:
        """The stores of the slot's shards, by shard: all operators of a slot have the same ones."""

    @property
    def metrics(self) -> UserMetrics:
        """The metrics that the user's code made; may be read from any thread."""

    # --- life

    def open(self) -> None:
        """Open the user's code, which asks for its state. The stores are restored before."""

    def close(self) -> None:
        """Close the user's code. Always called, also after a failure. The slot closes the stores."""

    # --- one epoch

    def begin(self, epoch: int, watermark: int, processing_time: int) -> E:
        """An empty overlay. ``watermark`` is that of the epoch before;
        both times are in ms and stand still until ``finish``."""

    def process_batch(self, overlay: E, batch: pa.RecordBatch) -> None:
        """Run the user's code over a batch, which has the hidden columns of ``sparkstate.columns``. Does nothing to a
        dropped overlay. Raises ``UserCodeError``; the overlay is then to be dropped."""

    def finish(self, overlay: E, watermark: int) -> None:
        """End the epoch: what waits is processed, timers that are due fire under the new watermark, the output is
        complete. Raises ``StateError`` when called twice."""

    def commit_spilled(self, overlay: E) -> None:
        """Write what lies on disk because it did not fit in memory into the stores. Called in a commit, before
        ``changes`` of any operator; does nothing if nothing lies there."""

    def changes(self, overlay: E) -> EpochChanges:
        """The changes still to be written; ``epoch.commit_overlays`` writes them, with those of all other operators."""

    def commit_operator_state(self, overlay: E) -> None:
        """Make the overlay's changes to operator state, which is in no store, state. Called in a commit, when the
        stores have theirs."""

    def expire_state(self, overlay: E) -> Sweep:
        """Remove some of the entries that have expired by the overlay's times. Called in a commit, at its end."""

    # --- checkpoints

    @property
    def has_operator_state(self) -> bool:
        """Whether its snapshots have operator state. The same in every slot."""

    @property
    def listens_to_checkpoints(self) -> bool:
        """Whether ``notify`` calls the user's code."""

    def declared_operator_state(self) -> Sequence[StateTypes]:
        """The operator state that the function has declared; the kind is the mode (``operator_parts.Mode``)."""

    def snapshot_operator_state(self, checkpoint_id: int, timestamp_ms: int) -> Sequence[StateImage]:
        """The committed operator state, once the user's code has written its variables into it. Called between two
        epochs. Raises ``UserCodeError``; the operator goes on as before."""

    def notify(self, checkpoint_id: int, *, completed: bool) -> None:
        """The end of a checkpoint. Raises ``UserCodeError``, which fails the job."""

    # --- looking in

    def next_timer(self) -> tuple[int | None, int | None]:
        """The least committed timestamp of event and of processing time timers; None: there is none."""

    def timer_tables(self, domain: TimeDomain) -> Sequence[TimerTable]:
        """The committed timer tables of the shards that have one."""

    def read_state(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """The committed value of one state and key, as JSON can carry it; None if there is none. Without its key
        group every key group of the slot is tried. Runs no code that was stored."""

    def read_value(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """The same as Python values."""

    def read_operator_state(self, state: str) -> list[Any] | dict[Any, Any]:
        """The committed operator state of that name in this slot."""

    def show_operator_state(self, state: str) -> tuple[Mode, Any]:
        """How it is dealt out, and the same as JSON can carry it. Runs no code that was stored."""

    # --- by hand, for tests of a function

    def process_rows(
        self,
        overlay: E,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Iterable[int | None],
        rows: Iterable[Any],
        of_input: int = 0,
    ) -> None:
        """Run the user's code over rows that are Python values already, with their keys, key groups and event times.
        Nothing is checked, sorted, or late. ``of_input`` is 1 for the second input of an operator that has two."""

    def put_side(self, overlay: E, tag: str, rows: list[Any]) -> None:
        """Send rows to a side output."""
