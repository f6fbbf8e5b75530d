"""A ``KeyedProcessFunction`` or ``KeyedBatchFunction`` in a test: no Spark, no slots, a real state backend.

Elements, watermarks and processing time are pushed by hand, output and state are read back. Each push is an
epoch of its own: what the function did is committed when the call returns. ``process_elements`` with a watermark is an
epoch as a job has them; elements pushed one by one and then their watermark give the same, as long as no
processing-time timer falls due between them.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sparkstate import disposal, state_backend
from sparkstate.backends import base, canonical, loader
from sparkstate.backends.custom.factory import BackendContext, BackendFactory
from sparkstate.checkpoint import premises
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, KeyedFunction, OutputTag, TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.base import EpochOverlay
from sparkstate.operators.spec import JobFacts, Restored
from sparkstate.operators.user_metrics import Reading
from sparkstate.serde import composite
from sparkstate.serde.row import Row
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state_backend import StateBackend
from sparkstate.testing.manual_clock import ManualClock
from sparkstate.testing.subtasks import FunctionCopies, Subtasks, dealt

_MEMORY_BYTES = 16 * MIB


@dataclass(frozen=True)
class HarnessSnapshot:
    """State, timers and times of a harness, independent of its backend."""

    shards: tuple[bytes, ...]
    watermark: int
    processing_time: int
    checkpoint_id: int = 0
    """Its number, which the function was told."""
    operator_state: tuple[bytes, ...] = ()
    """Of each subtask."""
    premises: Mapping[str, str] | None = None
    """Facts that the state depends on, such as the size of windows; a function with others is refused. None: nothing
    is stored by key."""


class KeyedProcessHarness:
    """Drives one function by hand.

    >>> from sparkstate.functions import KeyedProcessFunction
    >>> from sparkstate.serde.types import Types
    >>> from sparkstate.state.descriptors import ValueStateDescriptor
    >>> class Count(KeyedProcessFunction):
    ...     def open(self, ctx):
    ...         self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         self.count.update((self.count.value() or 0) + 1)
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.count.value()
    >>> with KeyedProcessHarness(Count(), key=lambda row: row.word, key_type=Types.STRING()) as harness:
    ...     harness.process_element({"word": "tea"}, timestamp=5)
    ...     harness.process_element({"word": "tea"}, timestamp=7)
    ...     harness.state("count", "tea"), harness.num_event_timers()
    ...     harness.process_watermark(106)
    ...     harness.output()
    (2, 2)
    [('tea', 2)]

    A ``KeyedBatchFunction`` gets the elements of one push as one batch; they are dicts or named rows, and its output
    are rows too.

    ``parallelism`` is the number of subtasks, which are the slots of a job: each has a function of its own, the keys of
    its shards, and its share of operator state. In its first life the first subtask has ``function`` itself; after a
    ``restore``, a ``CheckpointedFunction`` and the functions of several subtasks are fresh copies of it.

    ``backend`` is a name, such as ``rocksdb``, a state backend with its settings, or the class of your own backend.

    ``options`` are fields of ``KeyedSpec``: ``on_error``, ``late_tag``, ``sort_by_event_time``, …. A tag is an
    ``OutputTag`` or its id.
    """

    def __init__(
        self,
        function: KeyedFunction,
        *,
        key: Callable[[Any], Any],
        key_type: TypeInformation,
        backend: str | StateBackend | type[BackendFactory] = "hashmap",
        uid: str = "harness",
        max_parallelism: int = 128,
        shards: int = 2,
        processing_time: int = 0,
        job_parameters: Mapping[str, str] | None = None,
        parallelism: int = 1,
        **options: Any,
    ) -> None:
        self._key = key
        self._backend = backend
        self._key_space = KeySpace(max_parallelism, shards)
        named = {
            name: value.tag_id if isinstance(value, OutputTag) else value for name, value in options.items()
        }
        self._spec = kinds.spec(
            function, uid=uid, row_columns=(), key_columns=("key",), key_type=key_type, **named
        )
        self._parallelism = parallelism
        self._functions = FunctionCopies(function)
        self._checkpoints = 0
        self._key_codec = composite.key_codec(key_type)
        self._clock = ManualClock(processing_time)
        self._watermark = MIN_WATERMARK
        self._epoch = 0
        self._parameters = dict(job_parameters or {})
        self._lives = 0
        self._outputs: dict[str | None, list[Any]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="sparkstate-harness-")
        self._folders = itertools.count()
        self._closes: list[Callable[[], object]] = []
        try:
            self._start(None)
        except BaseException:  # the caller gets no harness to close
            with contextlib.suppress(Exception):
                self.close()
            raise

    # --- pushing

    def process_element(self, row: Any, timestamp: int | None = None) -> None:
        """Push one row: a ``Row``, a tuple, a dict (which becomes a ``Row``), or anything the key function takes."""
        self.process_elements([(row, timestamp)])

    def process_elements(
        self, elements: Iterable[tuple[Any, int | None]], watermark: int | None = None
    ) -> None:
        """Push several (row, timestamp) as one epoch, at whose end event time moves on to ``watermark``.

        As in a job, rows are late against the watermark from before the epoch, and they see that one. Without
        ``watermark`` event time stands still, and no event-time timer fires.
        """
        overlays = self._begin()
        judged = self._spec.judges_lateness
        kept: list[list[tuple[Any, Any, int | None]]] = [[] for _ in overlays]
        for element, timestamp in elements:
            row = Row.of(**element) if isinstance(element, dict) else element
            key = self._normal_key(self._key(row))
            subtask = self._subtask_for(key)
            if not judged and timestamp is not None and MIN_WATERMARK < self._watermark >= timestamp:
                overlays[subtask].late_rows += 1
                if self._spec.late_tag is not None:
                    self._subtasks.operators[subtask].put_side(overlays[subtask], self._spec.late_tag, [row])
                    continue
            kept[subtask].append((key, row, timestamp))
        for operator, overlay, records in zip(self._subtasks.operators, overlays, kept, strict=True):
            if self._spec.sort_by_event_time:
                records.sort(key=lambda record: MIN_WATERMARK if record[2] is None else record[2])
            keys = [key for key, _, _ in records]
            stamps = [timestamp for _, _, timestamp in records]
            key_groups = [self.key_group(key) for key in keys]
            operator.process_rows(overlay, keys, key_groups, stamps, [row for _, row, _ in records])
        self._end(overlays, watermark)

    def process_watermark(self, watermark: int) -> None:
        """Move event time on: due timers fire. A watermark that is not after the current one changes nothing."""
        self._end(self._begin(), watermark)

    def end_input(self) -> None:
        """The input has ended: the watermark passes all event time, timers fire, and ``finish`` is called."""
        self.process_watermark(MAX_WATERMARK)

    def set_processing_time(self, milliseconds: int) -> None:
        """Move wall time on: due timers fire."""
        self._clock.set(milliseconds)
        self._end(self._begin())

    # --- reading

    def output(self) -> list[Any]:
        """The rows of the main output so far, as they were yielded."""
        return list(self._outputs.get(None, []))

    def side_output(self, tag: OutputTag | str) -> list[Any]:
        """The rows of a side output so far."""
        return list(self._outputs.get(tag.tag_id if isinstance(tag, OutputTag) else tag, []))

    def clear_output(self) -> None:
        """Forget the rows of all outputs so far."""
        self._outputs.clear()

    def state(self, name: str, key: Any, namespace: Any = None) -> Any:
        """The content of a state under a key: a value, list or dict;
        None if nothing (an accumulator, if aggregating)."""
        key = self._normal_key(key)
        return self._subtasks.operators[self.subtask_of(key)].read_value(
            name, key, namespace, self.key_group(key)
        )

    def operator_state(self, name: str, subtask: int = 0) -> list[Any] | dict[Any, Any]:
        """The committed operator state of a subtask: a list, or the map of broadcast state."""
        return self._subtasks.operators[subtask].read_operator_state(name)

    def function(self, subtask: int = 0) -> Any:
        """The function object of a subtask, with its own variables."""
        return self._subtasks.functions[subtask]

    def event_timers(self, key: Any = ...) -> list[base.Timer]:
        """Registered event-time timers in order of time; of one key, if given."""
        return self._timers(TimeDomain.EVENT_TIME, key)

    def processing_timers(self, key: Any = ...) -> list[base.Timer]:
        """Registered processing-time timers in order of time; of one key, if given."""
        return self._timers(TimeDomain.PROCESSING_TIME, key)

    def num_event_timers(self) -> int:
        """How many event-time timers are registered."""
        return len(self.event_timers())

    def num_processing_timers(self) -> int:
        """How many processing-time timers are registered."""
        return len(self.processing_timers())

    def current_watermark(self) -> int:
        """The watermark so far."""
        return self._watermark

    def metrics(self) -> dict[str, Reading]:
        """The readings of the function's own metrics in the first subtask, by name."""
        return {
            reading.name: reading
            for reading in self._subtasks.operators[0].metrics.read(self._clock.monotonic())
        }

    def key_group(self, key: Any) -> int:
        """The harness's own key groups; a job's come from Spark and are others."""
        return zlib.crc32(self._key_codec.encode(key)) % self._key_space.max_parallelism

    def subtask_of(self, key: Any) -> int:
        """The subtask that has this key."""
        return self._subtasks.number_of(self.key_group(self._normal_key(key)))

    def _subtask_for(self, key: Any) -> int:
        """The subtask that a row with this key goes to."""
        return self.subtask_of(key)

    # --- life

    def snapshot(self) -> HarnessSnapshot:
        """All state, timers and times, for ``restore`` into this or another harness, also with the other backend.
        ``snapshot_state`` is called for it."""
        self._checkpoints += 1
        parts = self._subtasks.snapshot(self._checkpoints, self._clock.now_ms())
        files = []
        for number, store in self._stores.items():
            directory = self._directory(f"snapshot-{number}")
            taken = store.prepare_snapshot(self._epoch, directory, True)
            try:
                (file,) = taken.files()
                files.append(file.path.read_bytes())
            finally:
                taken.release()
        return HarnessSnapshot(
            tuple(files),
            self._watermark,
            self._clock.now_ms(),
            self._checkpoints,
            parts,
            dict(self._spec.function.state_premises) if self._has_tables() else None,
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the functions that this checkpoint is complete."""
        self._subtasks.notify(checkpoint_id, completed=True)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the functions that this checkpoint has failed."""
        self._subtasks.notify(checkpoint_id, completed=False)

    def restore(self, snapshot: HarnessSnapshot, parallelism: int | None = None) -> None:
        """Start again from a snapshot, with as many subtasks as before or with another ``parallelism``: the functions
        are closed and opened, output stays as it is. Raises ``StateMigrationError`` for state that does not fit."""
        if len(snapshot.shards) != self._key_space.shards:
            raise ValueError(
                f"the snapshot has {len(snapshot.shards)} shards, this harness {self._key_space.shards}; "
                "make both harnesses with the same max_parallelism and shards"
            )
        premises.check(self._spec.uid, snapshot.premises, self._spec.function.state_premises, "the snapshot")
        self._stop()
        self._watermark = snapshot.watermark
        self._clock = ManualClock(snapshot.processing_time)
        self._checkpoints = max(self._checkpoints, snapshot.checkpoint_id)
        if parallelism is not None:
            self._parallelism = parallelism
        self._start(snapshot)

    def close(self) -> None:
        """Close function and stores, and delete their files."""
        disposal.close_all([self._stop, self._folder.cleanup])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, snapshot: HarnessSnapshot | None) -> None:
        self._factory = self._new_factory(self._directory("factory"))
        self._closes = [self._factory.close]
        self._stores: dict[int, base.ShardStore] = {}
        for number in range(self._key_space.shards):
            groups = self._key_space.key_groups_of_shard(number)
            store = self._factory.create(number, groups, self._directory(f"shard-{number}"))
            self._closes.insert(0, store.close)
            if snapshot is not None:
                file = self._directory(f"restore-{number}") / canonical.FORMAT
                file.write_bytes(snapshot.shards[number])
                store.restore({canonical.FORMAT: file}, canonical.FORMAT)
            self._stores[number] = store
        restored = [Restored()] * self._parallelism
        if snapshot is not None:
            restored = dealt(snapshot.checkpoint_id, snapshot.operator_state, self._parallelism)
        self._subtasks = Subtasks(
            self._spec,
            self._functions.next_life(self._parallelism),
            self._stores,
            self._key_space,
            self._clock,
            JobFacts(parameters=self._parameters, attempt=self._lives, watermark=self._watermark),
            restored,
        )
        self._closes.insert(0, self._subtasks.close)
        self._lives += 1

    def _new_factory(self, directory: Path) -> base.StoreFactory:
        if isinstance(self._backend, type) and issubclass(self._backend, BackendFactory):
            return self._backend(BackendContext(directory=directory, memory_bytes=_MEMORY_BYTES))
        chosen = state_backend.from_value(self._backend)
        if chosen is None:
            raise ValueError("backend is None; name one, or leave the argument out")
        settings = StateBackendSettings(managed_memory_bytes=_MEMORY_BYTES)
        return loader.create_store_factory(chosen.effective_settings(settings), directory)

    def _has_tables(self) -> bool:
        """Whether anything may be stored by key, timers included."""
        return any(store.tables() for store in self._stores.values())

    def _stop(self) -> None:
        closes, self._closes = self._closes, []
        disposal.close_all(closes)

    def _directory(self, name: str) -> Path:
        path = Path(self._folder.name) / f"{next(self._folders)}-{name}"
        path.mkdir()
        return path

    def _begin(self) -> list[EpochOverlay]:
        self._epoch += 1
        return self._subtasks.begin(self._epoch, self._watermark, self._clock.now_ms())

    def _end(self, overlays: list[EpochOverlay], watermark: int | None = None) -> None:
        if watermark is not None:
            self._watermark = max(self._watermark, watermark)
        self._subtasks.end(overlays, self._watermark)
        for overlay in overlays:
            for tag, rows in overlay.unconverted.items():
                self._outputs.setdefault(tag, []).extend(rows)

    def _normal_key(self, key: Any) -> Any:
        return self._spec.key_type.normalize_key(key)

    def _timers(self, domain: TimeDomain, key: Any) -> list[base.Timer]:
        tables = [table for operator in self._subtasks.operators for table in operator.timer_tables(domain)]
        found = [timer for table in tables for timer in table.due(2**63 - 1)]
        if key is not ...:
            found = [timer for timer in found if timer.key == self._normal_key(key)]
        return sorted(found, key=lambda timer: timer.timestamp)
