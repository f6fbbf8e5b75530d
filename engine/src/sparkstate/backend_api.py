"""For authors of state backends: everything that a backend of one's own needs, and nothing else.

A job names the class (``stateBackend: {type: custom, class: "my_backend:MyBackend"}``). There are two ways to write
it. Derive it from :class:`RowBackendFactory` and bring an :class:`OrderedRows`, an ordered map from bytes to bytes:
values, lists, maps, timers, namespaces, snapshots and restores are then done. Or derive it from
:class:`BackendFactory` and bring a whole :class:`ShardStore`, with a format of its own for checkpoints if you like.
``sparkstate check-backend`` and ``sparkstate.testing.BackendConformance`` say whether it is right, and a job that
names it starts only if it is.

The promise of this module: a name that is here keeps its meaning through all versions with the same first number.
Additions to a class have defaults, so that a backend that passes the kit today can still be loaded. The kit itself may
get stricter, because it says what jobs rely on; docs/custom-backends.md has the rules.
"""

from __future__ import annotations

from sparkstate.backends.base import (
    DELETED,
    CanonicalRow,
    Cell,
    ColumnarStore,
    ColumnarTable,
    ListChange,
    ListTable,
    MapChange,
    MapTable,
    NamespacedCell,
    ShardSnapshot,
    ShardStats,
    ShardStore,
    SnapshotFile,
    SnapshotStream,
    Spill,
    SpillingFactory,
    StateKind,
    StoreFactory,
    StreamedSnapshot,
    Table,
    TableChanges,
    TableSpec,
    TableStats,
    Timer,
    TimerTable,
    ValueTable,
    key_of,
)
from sparkstate.backends.canonical import (
    FORMAT,
    CanonicalFile,
    CanonicalWriter,
    RowBlock,
    TableCodec,
    check_same_table,
)
from sparkstate.backends.custom.factory import BackendContext, BackendFactory
from sparkstate.backends.custom.ordered_rows import OrderedRows, Row, RowsView
from sparkstate.backends.custom.row_store import RowBackendFactory, RowStore
from sparkstate.backends.dropping import DroppingStore
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.keygroups import KeyGroupRange

__all__ = [
    "DELETED",
    "FORMAT",
    "BackendContext",
    "BackendFactory",
    "CanonicalFile",
    "CanonicalRow",
    "CanonicalWriter",
    "Cell",
    "ColumnarStore",
    "ColumnarTable",
    "DroppingStore",
    "KeyGroupRange",
    "ListChange",
    "ListTable",
    "MapChange",
    "MapTable",
    "NamespacedCell",
    "OrderedRows",
    "Row",
    "RowBackendFactory",
    "RowBlock",
    "RowStore",
    "RowsView",
    "ShardSnapshot",
    "ShardStats",
    "ShardStore",
    "SnapshotFile",
    "SnapshotStream",
    "Spill",
    "SpillingFactory",
    "StateKind",
    "StoreFactory",
    "StreamedSnapshot",
    "Table",
    "TableChanges",
    "TableCodec",
    "TableSpec",
    "TableStats",
    "Timer",
    "TimerTable",
    "ValueColumns",
    "ValueTable",
    "check_same_table",
    "key_of",
]
