"""The common half of operators whose work lives in an ``Overlay``, whatever their function is called with.

Theory. ``begin`` gives an overlay; ``process_batch`` and ``finish`` write to it alone; the commit of the epoch makes it
state. Several overlays of an epoch may exist (one for each attempt); the function object and its handles are one, so an
overlay is *bound* to them for the time of a call, and a lock keeps the calls apart.

A kind says how its function is opened, given rows, given due timers, and closed.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.backends.base import ShardStore, TableSpec, TimerTable
from sparkstate.checkpoint.operator_parts import Mode
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.clock import Clock
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.base import EpochChanges, StateImage, Sweep
from sparkstate.operators.common import garbage, intake
from sparkstate.operators.common.checkpoint_hooks import CheckpointHooks
from sparkstate.operators.common.outputs import Outputs
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.rows import key_order, sorting
from sparkstate.operators.spec import JobFacts, KeyedSpec, Restored
from sparkstate.operators.state import changes, handles, inspection
from sparkstate.operators.state.cleanup import Cleanup
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.handles import StateHandle, TableOf
from sparkstate.operators.state.operator_state_memory import OperatorStateMemory
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.operators.user_metrics import UserMetrics
from sparkstate.serde import containers
from sparkstate.serde.evolution import StateTypes
from sparkstate.serde.expiring import Times
from sparkstate.serde.typeinfo import TypeInformation


class FunctionCalls(Protocol):
    """The calls of one kind of function, as far as both kinds have them."""

    outputs: Outputs
    cursor: Cursor

    def finish(self, overlay: Overlay, handles: Iterable[StateHandle]) -> None:
        """The input has ended: the function gives its last rows."""

    def close(self, handles: Iterable[StateHandle]) -> None:
        """Close the function, which no longer has a key."""

    def without_key(self, handles: Iterable[StateHandle]) -> None:
        """There is no key: whatever knew the overlay at hand forgets it."""


S = TypeVar("S", bound=KeyedSpec)
C = TypeVar("C", bound=FunctionCalls)


class OverlayOperator(abc.ABC, Generic[S, C]):
    """An operator of one slot; its public methods are those of ``operators.base.Operator``, and say more there."""

    in_columns = False
    """Whether the function works on columns of keys and values."""
    takes_any_order = False
    """Whether the rows of different keys may be processed in another order than they came in."""
    indexes_longs = False
    """Whether a function called per record has its whole-number keys found by an index of arrays."""

    def __init__(
        self,
        spec: S,
        stores: Mapping[int, ShardStore],
        key_space: KeySpace,
        clock: Clock,
        subtask: int,
        parallelism: int,
        budget: EpochBudget | None = None,
        facts: JobFacts | None = None,
        restored: Restored | None = None,
        operator_state_memory: OperatorStateMemory | None = None,
    ) -> None:
        self.spec = spec
        self.stores = stores
        self._budget = budget
        self._clock = clock
        self._tables = OperatorTables(
            spec.uid, spec.key_type, stores, key_space, self.in_columns, self.indexes_longs
        )
        restored = restored or Restored()
        self._operator_states = OperatorStates(spec.uid, restored.states, operator_state_memory)
        given = spec.function.author_object
        self._hooks = CheckpointHooks(given, spec.uid, self._operator_states, restored, subtask == 0)
        self._calls = self._make_calls(spec, self._tables, self._operator_states)
        self._intake = self._make_intake(spec, self._tables.owned)
        self._lock = threading.RLock()
        self._expected_keys = 0
        """As many as the last epoch had at its end."""
        self._goes_by_key = False
        """Whether the rows of the next epoch wait to be processed in the order of their keys: the last one moved more
        bytes of state to disk than its rows had."""
        self._context = OperatorRuntimeContext(
            spec.uid,
            spec.key_type,
            self._calls.cursor,
            self._register,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=key_space.max_parallelism,
            undoes_records=spec.on_error == "side-output",
            facts=facts or JobFacts(),
            value_handle_class=self._value_handle_class(),
        )
        """Has every state handle of the function, and its metrics."""
        self._facts = facts or JobFacts()
        self._cleanup = Cleanup(stores)

    def _register(self, spec: TableSpec) -> TableOf:
        """Create the table of a state that the function declares."""
        self._tables.adopt(spec, Times(self._clock.now_ms(), self._facts.watermark))
        return self._tables.register(spec)

    # --- of each kind

    @abc.abstractmethod
    def _make_calls(self, spec: S, tables: OperatorTables, operator_states: OperatorStates) -> C:
        """The calls of the function."""

    def _value_handle_class(self) -> Callable[[TypeInformation, bool], type[handles.ValueStateHandle]]:
        """The classes of the handles of value states."""
        return handles.value_handle_class

    def _make_intake(self, spec: S, owned: Set[int]) -> intake.Intake:
        """The entrance of batches."""
        return intake.Intake(spec, owned, self._calls.outputs)

    @abc.abstractmethod
    def _open_context(self) -> Any:
        """The context that ``open`` is given."""

    @abc.abstractmethod
    def _open(self, context: Any) -> None:
        """Open the function."""

    @abc.abstractmethod
    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        """Call the function for these rows, which are checked and on time."""

    @abc.abstractmethod
    def _fire(self, overlay: Overlay, watermark: int) -> None:
        """Call the function for all timers that are due."""

    # --- life

    def open(self) -> None:
        context = self._open_context()
        with self._lock, self._operator_states.at_once():
            self._hooks.initialize(context)
            self._open(context)
            self._context.is_open = self._operator_states.may_declare = False
            self._tables.set_handles(self._context.handles.values())
            self._require_timers_of_these_keys()

    def _require_timers_of_these_keys(self) -> None:
        """A table is compared with its declaration when it is asked for. Nobody declares timers, so those of another
        type of keys would be found by the first row that sets one."""
        for domain in TimeDomain:
            self._tables.timer_tables(domain)

    def close(self) -> None:
        with self._lock:
            self._operator_states.unbind()
            self._calls.close(self._context.handles.values())

    # --- one epoch

    def begin(
        self, epoch: int, watermark: int = MIN_WATERMARK, processing_time: int | None = None
    ) -> Overlay:
        """As the contract says; processing time defaults to the clock's now."""
        if processing_time is None:
            processing_time = self._clock.now_ms()
        tables = self._tables.empty_tables()
        known, timers = self._tables.no_keys(self._expected_keys), self._tables.empty_timers()
        by_key = self._goes_by_key
        column = columns.KEY_GROUP if by_key else self.spec.event_time_column
        return Overlay(
            epoch, watermark, processing_time, tables, known, timers, sort_column=column, by_key=by_key
        )

    def process_batch(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0 or overlay.dropped:
            return
        with self._at_work():
            batch = self._intake.take(overlay, batch)
            overlay.row_bytes += batch.nbytes
            if self.spec.sort_by_event_time or overlay.by_key:
                overlay.held.append(batch)
                self._make_room(overlay)
                if overlay.by_key and self._bounded.has_too_many_runs(overlay):
                    self._process_held(overlay)
                    overlay.by_key = False
            elif batch.num_rows:
                self._process_parts(overlay, batch)

    def finish(self, overlay: Overlay, watermark: int) -> None:
        """Rows held for sorting are processed, then due timers fire under the new watermark."""
        with self._at_work():
            if overlay.finished:
                raise errors.StateError(
                    f"operator {self.spec.uid!r}: epoch {overlay.epoch} was finished twice"
                )
            self._process_held(overlay)
            with garbage.collection_paused():
                self._fire(overlay, watermark)
            overlay.new_watermark = watermark
            if watermark == MAX_WATERMARK:
                self._calls.finish(overlay, self._context.handles.values())
            self._operator_states.require_room(overlay.operator_changes, is_end=True)
            self._expected_keys = len(overlay.known)
            self._make_room(overlay)
            # Rows that wait are written and read again, which costs more than it saves where they are the larger part.
            self._goes_by_key = overlay.moved_bytes > overlay.row_bytes and self._can_go_by_key()
            self._context.metrics.refresh_gauges()
            overlay.finished = True
            self._hooks.finished(overlay.epoch)

    def commit_spilled(self, overlay: Overlay) -> None:
        if overlay.spill is not None and self._budget is not None:
            self._budget.move_to_disk(self._tables, overlay)
            overlay.spill.commit()

    def changes(self, overlay: Overlay) -> EpochChanges:
        if overlay.spill is not None:
            return EpochChanges()
        tables = self._tables
        timer_specs = {d: tables.timer_spec(d) for d in TimeDomain if overlay.timers[d].has_changes}
        by_shard = changes.changes_of(
            overlay, tables.handles, timer_specs, tables.shard_of, tables.takes_columns
        )
        return EpochChanges(by_shard, changes.key_groups_of(by_shard, overlay.known))

    def commit_operator_state(self, overlay: Overlay) -> None:
        with self._lock:
            self._operator_states.commit(overlay.operator_changes)
            self._hooks.committed()

    def expire_state(self, overlay: Overlay) -> Sweep:
        with self._lock:
            return self._cleanup.run(self._context.handles.values(), overlay)

    # --- checkpoints

    @property
    def has_operator_state(self) -> bool:
        return (
            isinstance(self.spec.function.author_object, CheckpointedFunction)
            or not self._operator_states.is_empty
        )

    @property
    def listens_to_checkpoints(self) -> bool:
        return self._hooks.listens

    def declared_operator_state(self) -> Sequence[StateTypes]:
        with self._lock:
            return self._operator_states.declared()

    def snapshot_operator_state(self, checkpoint_id: int, timestamp_ms: int) -> Sequence[StateImage]:
        with self._lock:
            return self._hooks.snapshot(checkpoint_id, timestamp_ms)

    def notify(self, checkpoint_id: int, *, completed: bool) -> None:
        with self._lock:
            self._hooks.notify(checkpoint_id, completed=completed)

    # --- details

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """A piece of work. After it, no handle knows the overlay: another operator may move it to disk, and what a
        handle knows would stay in memory until this operator has work again."""
        with self._lock:
            try:
                yield
            finally:
                self._calls.without_key(self._context.handles.values())

    def _process_parts(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        for part in (batch,) if self._budget is None else self._budget.parts(self.spec.uid, batch):
            if overlay.dropped:
                return
            self._process(overlay, part)
            self._make_room(overlay, part.num_rows)

    def _make_room(self, overlay: Overlay, rows: int = 0) -> None:
        self._operator_states.require_room(overlay.operator_changes)
        if self._budget is not None:
            self._budget.make_room(self._tables, overlay, rows)

    @property
    def _bounded(self) -> EpochBudget:
        """The budget of an overlay whose rows wait for the order of their keys."""
        assert self._budget is not None
        return self._budget

    def _process_held(self, overlay: Overlay) -> None:
        runs = overlay.files.take_runs() if overlay.files is not None else []
        column, held = overlay.sort_column, overlay.held
        if column is None or not (held or runs):
            return
        overlay.held = []
        batches: Iterable[pa.RecordBatch]
        batches = sorting.merge(runs, held, column) if runs else sorting.sort(held, column)
        if overlay.by_key:
            batches = self._bounded.by_key(overlay, batches, self.spec.key_columns)
        for batch in batches:
            if overlay.dropped:  # the other rows need not be merged
                return
            self._process_parts(overlay, batch)
        overlay.measured.pop(("held",), None)

    def _can_go_by_key(self) -> bool:
        spec = self.spec
        return (
            self.takes_any_order
            and not spec.sort_by_event_time
            and self._budget is not None
            and self._budget.pays_order
            and self._tables.reads_rows_ahead
            and key_order.is_known(spec.key_type)
        )

    # --- by hand

    def put_side(self, overlay: Overlay, tag: str, rows: list[Any]) -> None:
        self._calls.outputs.put_side(overlay, tag, rows)

    # --- looking in

    @property
    def metrics(self) -> UserMetrics:
        return self._context.metrics

    def next_timer(self) -> tuple[int | None, int | None]:
        with self._lock:
            next_timer = self._tables.next_timer
            return next_timer(TimeDomain.EVENT_TIME), next_timer(TimeDomain.PROCESSING_TIME)

    def timer_tables(self, domain: TimeDomain) -> list[TimerTable]:
        return self._tables.timer_tables(domain)

    def read_state(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """As the contract says: so pickled values are not opened."""
        if containers.holds_pickled(self._handle(state).value_type):
            raise errors.StateError(
                f"operator {self.spec.uid!r}: the values of state {state!r} are pickled; reading them runs "
                "code, so they are not shown"
            )
        return inspection.to_json(self.read_value(state, key, namespace, key_group))

    def read_value(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """A list, a dict, or a value; of an aggregating state its accumulator."""
        with self._lock:
            spec, tables = self._handle(state).spec, self._tables
            kgs = sorted(tables.owned) if key_group is None else [key_group]
            cutoff = self._cleanup.cutoff(spec, self._clock.now_ms())
            return inspection.read_cell(spec, tables.register(spec), kgs, key, namespace, cutoff)

    def read_operator_state(self, state: str) -> list[Any] | dict[Any, Any]:
        with self._lock:
            return self._operator_states.read(state)

    def show_operator_state(self, state: str) -> tuple[Mode, Any]:
        with self._lock:
            return self._operator_states.shown(state)

    def _handle(self, state: str) -> StateHandle:
        handle = self._context.handles.get(state)
        if handle is None:
            known = ", ".join(sorted(self._context.handles)) or "none"
            raise errors.StateError(
                f"operator {self.spec.uid!r} has no state {state!r}; its states are: {known}"
            )
        return handle
