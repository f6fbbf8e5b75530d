"""The contract between keyed state and the stores that hold it.

A *shard store* holds the committed state of one shard: all states and timers of all operators for a fixed range of key
groups. It never sees an uncommitted change: an epoch's changes live in an overlay (``operators.state.overlay``) and
arrive here whole, by :meth:`ShardStore.commit`, when the driver says so. Reads may run beside a snapshot; ``commit``
and ``prepare_snapshot`` are never called at the same time as one another.

Cells. A state is a table from *cell* to value. A cell is the current key (a scalar for one key column, a tuple for
more) or, where a namespace other than the default is set, ``NamespacedCell(key, namespace)``.

Values are in their *stored form* here (``serde.typeinfo``): immutable types as themselves, mutable types (lists, maps,
pickled objects) as their encoded bytes. A store turns stored form into bytes and back by ``value_type.encode`` and
``value_type.decode``, and never looks inside.

Key groups travel beside the keys (``kg``): they are computed in Spark and never recomputed here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from sparkstate.backends import value_columns
from sparkstate.backends.keyed_table import KeyedTable
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import Flags, KeyGroups, ValueColumns, Values
from sparkstate.keygroups import KeyGroupRange

if TYPE_CHECKING:
    from sparkstate.serde.types import TypeInformation


class StateKind(enum.StrEnum):
    """The kind of state that a table holds."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    EVENT_TIMERS = "event-timers"
    PROCESSING_TIMERS = "processing-timers"


TIMER_KINDS: Final = (StateKind.EVENT_TIMERS, StateKind.PROCESSING_TIMERS)


class NamespacedCell(NamedTuple):
    """A cell under a namespace other than the default one."""

    key: Any
    namespace: Any


Cell: TypeAlias = Any
"""The current key, or a :class:`NamespacedCell`."""


class _Deleted(enum.Enum):
    DELETED = "deleted"


DELETED: Final = _Deleted.DELETED
"""Stands for "no value" in changes, where ``None`` could be confused with a stored null."""


def key_of(cell: Cell) -> Any:
    """The key of a cell, with or without a namespace."""
    return cell.key if type(cell) is NamespacedCell else cell


class Timer(NamedTuple):
    """One registered timer: ``timestamp`` in ms, the key, its key group, its namespace (None = default)."""

    timestamp: int
    key: Any
    key_group: int
    namespace: Any = None


@dataclass(frozen=True)
class TableSpec:
    """Identity and types of one table. Two specs are the same table when ``uid`` and ``name`` are equal."""

    uid: str
    name: str
    kind: StateKind
    key_type: TypeInformation
    value_type: TypeInformation | None = None
    user_key_type: TypeInformation | None = None
    namespace_type: TypeInformation | None = None

    @property
    def is_columnar(self) -> bool:
        """Whether the values may travel as columns (``value_columns``)."""
        is_value = self.kind in (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING)
        has_dtype = value_columns.dtype_of(self.value_type) is not None
        return is_value and has_dtype and value_columns.has_long_keys(self.key_type)


@dataclass(slots=True)
class ListChange:
    """Change of one list: ``items`` are appended, after the stored ones were dropped if ``replaced``."""

    replaced: bool = False
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class MapChange:
    """Change of one map: stored entries are dropped first if ``cleared``; then ``entries`` (value or DELETED)."""

    cleared: bool = False
    entries: dict[Any, Any] = field(default_factory=dict)


@dataclass
class TableChanges:
    """All changes of one epoch to one table of one shard.

    ``values`` is used by VALUE, REDUCING and AGGREGATING tables (value or DELETED), ``lists`` and ``maps`` by theirs,
    ``timers`` by timer tables (True = register, False = delete). Columnar tables (``value_columns``) may have
    ``columns`` and ``pairs`` as well, and timer tables of a ``TimerColumnsStore`` ``timer_columns``; no cell and no
    timer is in two of them.
    """

    spec: TableSpec
    values: dict[Cell, Any] = field(default_factory=dict)
    columns: ValueColumns | None = None
    pairs: ValueColumns | None = None
    """Values in namespaces that are whole numbers, as columns by key and namespace."""
    lists: dict[Cell, ListChange] = field(default_factory=dict)
    maps: dict[Cell, MapChange] = field(default_factory=dict)
    timers: dict[Timer, bool] = field(default_factory=dict)
    timer_columns: TimerColumns | None = None

    def column_parts(self, size: int) -> Iterator[TableChanges]:
        """The columns alone, in the order of their stored rows, so many entries at a time."""
        for part in _parts(self.columns, size):
            yield TableChanges(self.spec, columns=part)
        for part in _parts(self.pairs, size):
            yield TableChanges(self.spec, pairs=part)
        if self.timer_columns is not None:
            for places in _sliced(self.timer_columns.row_order(), size):
                yield TableChanges(self.spec, timer_columns=self.timer_columns.select(places))


def _parts(columns: ValueColumns | None, size: int) -> Iterator[ValueColumns]:
    if columns is not None:
        for places in _sliced(value_columns.row_order(columns.keys, columns.key_groups), size):
            yield columns.select(places)


def _sliced(order: Any, size: int) -> Iterator[Any]:
    return (order[start : start + size] for start in range(0, len(order), size))


class CanonicalRow(NamedTuple):
    """One row of the canonical (backend-independent) format, see docs/formats.md.

    ``sub`` is the list position (8 bytes, big endian), the encoded map key, the timer's timestamp (8 bytes, order
    preserving), or empty. ``value`` is schema id and msgpack bytes; empty for timers.
    """

    table: int
    """Index into the savepoint's list of tables."""
    key_group: int
    key: bytes
    namespace: bytes
    sub: bytes
    value: bytes


@dataclass(frozen=True)
class SnapshotFile:
    """One local file of a snapshot. ``identity`` as in ``handles.FileHandle``; shared files are immutable."""

    name: str
    path: Path
    size: int
    shared: bool
    identity: str = ""


@dataclass(frozen=True)
class SnapshotStream:
    """A file of a snapshot that is on no disk. ``chunks`` makes its bytes as they are read, in any thread, once."""

    name: str
    chunks: Callable[[], Generator[bytes, None, None]]


class ShardSnapshot(Protocol):
    """The result of the synchronous part. ``files`` does the slow part, in another thread beside commits."""

    format: str

    def files(self) -> Sequence[SnapshotFile]:
        """The snapshot's files, written now if need be."""

    def release(self) -> None:
        """Free what the snapshot holds (memory views, local hard links). Called once, also after a failure."""


@runtime_checkable
class StreamedSnapshot(Protocol):
    """A snapshot that can do without a local copy. Either ``streams`` or ``files`` is called."""

    format: str

    def streams(self) -> Sequence[SnapshotStream]:
        """The bytes that :meth:`ShardSnapshot.files` would write, to be read instead; exclusive files only."""

    def release(self) -> None:
        """As of any snapshot; nothing is read any more."""


class TableStats(NamedTuple):
    """Sizes of one table, in rows and bytes."""

    spec: TableSpec
    rows: int
    bytes: int


@dataclass(frozen=True)
class ShardStats:
    """Sizes of one shard, in bytes and rows; ``estimated`` where the store can only guess."""

    rows: int
    bytes: int
    estimated: bool = False
    tables: Sequence[TableStats] = ()
    """The same by table, where the store can tell. Bytes that belong to no table are in the sums alone."""


class ValueTable(KeyedTable, Protocol):
    """Committed values of a VALUE, REDUCING or AGGREGATING table. Missing is ``None``."""

    def get(self, kg: int, cell: Cell) -> Any:
        """One value."""

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        """Several values in order; one look-up for all where the store can."""


class ColumnarTable(ValueTable, Protocol):
    """A table whose values may travel as columns (``TableSpec.is_columnar``)."""

    def get_columns(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        """The values of whole-number keys in the default namespace, or of pairs of such a key and a namespace that is a
        whole number (``long_index.PAIR``); one entry for each, and whether there is a value."""


class ListTable(KeyedTable, Protocol):
    """Committed elements of a LIST table."""

    def get(self, kg: int, cell: Cell) -> list[Any]:
        """A fresh list of the stored elements in order; empty when there are none."""


class MapTable(KeyedTable, Protocol):
    """Committed entries of a MAP table."""

    def get(self, kg: int, cell: Cell, user_key: Any) -> Any:
        """The value, or DELETED when the entry is missing (a stored value may be None)."""

    def items(self, kg: int, cell: Cell) -> dict[Any, Any]:
        """A fresh dict of all entries."""


class TimerTable(Protocol):
    """Committed timers of one time domain."""

    def due(self, until: int) -> Iterator[Timer]:
        """Committed timers with timestamp ≤ ``until``, in order of time."""

    def contains(self, timer: Timer) -> bool:
        """Whether that timer is registered."""

    def next_timestamp(self) -> int | None:
        """The least committed timestamp, or None."""


Table: TypeAlias = ValueTable | ListTable | MapTable | TimerTable


class ShardStore(Protocol):
    """The committed state of one shard. One owner: threads may do together only what the module's head says."""

    shard: int
    key_groups: KeyGroupRange

    def table(self, spec: TableSpec) -> Table:
        """The table of that spec, created if new. The same object for the same name and types.

        Where the stored values are of another type, ``canonical.check_same_table`` says how they become values of the
        declared one, or raises :class:`errors.StateMigrationError`. From then on the table reads and writes the
        declared type, and so does every snapshot that a restore can read.
        """

    def tables(self) -> Sequence[TableSpec]:
        """Every table, including restored ones that the job's code has not asked for yet."""

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        """Apply one epoch's changes atomically. ``kgs`` has the key group of every key in them."""

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> ShardSnapshot:
        """The short synchronous part of a snapshot.

        ``directory`` is empty and on the same device as the store. ``canonical`` asks for the single file ``canonical``
        that any backend restores (savepoints); otherwise the backend's own format.
        """

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        """Fill an empty store from snapshot files (logical name → verified local file), own or canonical format.

        Rows of a canonical file outside this shard's key groups are skipped, so one file may feed several shards.
        """

    def quiesce(self) -> None:
        """The process is about to end: begin no work that only later commits and reads would gain by."""

    def stats(self) -> ShardStats:
        """How much there is."""

    def close(self) -> None:
        """Let go of everything; the store is not used afterwards. A process that ends does not call it."""


class StoreFactory(Protocol):
    """Builds the stores of one slot and owns what they share (cache, write buffer manager)."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> ShardStore:
        """An empty store; ``directory`` is its own."""

    def memory(self) -> Mapping[str, int]:
        """Bytes by name: ``budget``, ``cache``, ``write_buffers``, ``tables``; what the backend can tell."""

    def metrics(self) -> Mapping[str, float]:
        """Native metrics that were switched on, by Flink's names."""

    def close(self) -> None:
        """After all its stores were closed."""


class Spill(Protocol):
    """Changes of one overlay that did not fit in memory, on disk, above the committed tables.

    Nothing in it is state until :meth:`commit`. One thread at a time.
    """

    def add(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        """Fold in more changes; they hide those added before. Raises ``StateError`` for rows that no store
        takes; the overlay is then to be given up."""

    def table(self, spec: TableSpec) -> Table:
        """A table as it is with the changes: reads look here first, and then into the shard's store. But it lists the
        keys of the changes alone (``SpilledKeys``)."""

    def standing(self, spec: TableSpec, timers: Sequence[Timer]) -> list[bool | None]:
        """For each timer: registered here (True), deleted here (False), or not mentioned (None)."""

    def due(self, spec: TableSpec, start: bytes, until: int, limit: int) -> tuple[list[Timer], bytes]:
        """At most ``limit`` timers registered here with timestamp ≤ ``until``, in order of time, from
        position ``start`` on (``b""`` = the beginning); and the position behind the last."""

    def position(self, timestamp: int) -> bytes:
        """The position before all timers of that timestamp."""

    def commit(self) -> None:
        """Write everything into the shard stores, in small batches. Snapshots must wait meanwhile."""

    def close(self) -> None:
        """Remove all files. A commit is refused afterwards. Closing twice is allowed."""


@runtime_checkable
class ColumnarStore(Protocol):
    """A store whose columnar tables are ``ColumnarTable``s and take changes as columns. Others get single values."""

    takes_columns: bool


@runtime_checkable
class SpillingFactory(Protocol):
    """A store factory whose stores take overlays larger than memory."""

    @property
    def overlay_bytes(self) -> int | None:
        """The share of the slot's memory that overlays may take; None = no bound."""

    def create_spill(
        self, stores: Mapping[int, ShardStore], shard_of: Sequence[int], directory: Path
    ) -> Spill:
        """An empty spill above ``stores`` (by shard; ``shard_of`` by key group) in an empty ``directory``."""
