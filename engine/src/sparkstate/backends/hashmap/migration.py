"""A restored table whose state is now declared with another type, or with another time-to-live: all its values are
changed at once, in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from sparkstate.backends import canonical
from sparkstate.backends.base import TableSpec
from sparkstate.backends.canonical import RowBlock
from sparkstate.backends.hashmap import snapshot, tables
from sparkstate.backends.hashmap.column_table import HashMapColumnTable
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys
from sparkstate.backends.hashmap.kinds import HashMapTable, create_table
from sparkstate.serde.evolution import Verdict
from sparkstate.serde.migration import Migration

_ROWS_AT_ONCE: Final = 2048


def taken_up(
    table: HashMapTable, spec: TableSpec, verdict: Verdict, key_groups: KeyGroupsOfKeys
) -> HashMapTable:
    """The table with its values in the type of ``spec``, which ``verdict`` allows. A table of cells is migrated value
    by value, where it lies; columns, which have another width then, go over into a new table."""
    old = table.spec.value_type
    assert old is not None
    migrate = Migration(old, () if verdict.plan is None else (verdict.plan,))
    if isinstance(table, HashMapColumnTable):
        return rewritten(table, spec, migrate, key_groups)
    assert not isinstance(table, tables.HashMapTimerTable)
    table.migrate(spec, _convert(table.spec, spec, migrate))
    return table


def _convert(before: TableSpec, now: TableSpec, migrate: Migration) -> Callable[[Any], Any]:
    """Stored form of the old type to stored form of the new one."""
    assert before.value_type is not None
    assert now.value_type is not None
    encode, decode = before.value_type.encode, now.value_type.decode
    return lambda stored: decode(migrate(encode(stored)))


def rewritten(
    table: HashMapTable,
    spec: TableSpec,
    convert: Callable[[bytes], bytes | None],
    key_groups: KeyGroupsOfKeys,
) -> HashMapTable:
    """A table of ``spec`` with the values of another, whose bytes went through ``convert``; None: the value is gone."""
    made, codec = create_table(spec, key_groups), canonical.TableCodec(spec)
    frozen = snapshot.FrozenTable(table.spec, table.freeze(), key_groups.by_key)
    converted = (
        (row.key_group, row.key, row.namespace, row.sub, value)
        for row in snapshot.single_rows(0, frozen)
        if (value := convert(row.value)) is not None
    )
    while rows := list(itertools.islice(converted, _ROWS_AT_ONCE)):
        made.load(codec, RowBlock(0, rows))
    frozen.view.release()
    return made
