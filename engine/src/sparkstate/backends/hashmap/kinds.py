"""Which class of table holds the state of a spec."""

from __future__ import annotations

from typing import TypeAlias

from sparkstate.backends import base
from sparkstate.backends.base import TableSpec
from sparkstate.backends.hashmap import tables
from sparkstate.backends.hashmap.column_table import HashMapColumnTable
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys

HashMapTable: TypeAlias = (
    tables.HashMapValueTable
    | HashMapColumnTable
    | tables.HashMapListTable
    | tables.HashMapMapTable
    | tables.HashMapTimerTable
)


def create_table(spec: TableSpec, key_groups: KeyGroupsOfKeys) -> HashMapTable:
    """An empty table. ``key_groups`` are those of the operator."""
    match spec.kind:
        case base.StateKind.LIST:
            return tables.HashMapListTable(spec, key_groups)
        case base.StateKind.MAP:
            return tables.HashMapMapTable(spec, key_groups)
        case base.StateKind.EVENT_TIMERS | base.StateKind.PROCESSING_TIMERS:
            return tables.HashMapTimerTable(spec)
    if spec.is_columnar:
        return HashMapColumnTable(spec, key_groups)
    return tables.HashMapValueTable(spec, key_groups)
