"""The entries of a snapshot, read from its files alone: without the job's code, a driver or a backend.

Values are decoded by the types that the snapshot describes. Members of enums are their names. Pickled objects stay
bytes, because reading them would run code.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from sparkstate import errors
from sparkstate.backends import base, canonical, loader
from sparkstate.backends.base import TIMER_KINDS, CanonicalRow, StateKind, TableSpec
from sparkstate.checkpoint import operator_parts
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.operator_parts import StoredState
from sparkstate.checkpoint.savepoint import OpenedSnapshot
from sparkstate.handles import ShardHandle
from sparkstate.keygroups import KeySpace
from sparkstate.operators.state import inspection
from sparkstate.serde import composite, containers, expiring, packed, types
from sparkstate.serde.row import Row
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.settings import MIB, StateBackendSettings

Entry: TypeAlias = dict[str, Any]
"""One value, element, map entry or timer, of values that JSON has."""
_ROCKSDB: Final = "rocksdb"
"""The format of shards in RocksDB's own files."""
_MEMORY_BYTES: Final = 64 * MIB
"""Of the store in which such a shard is opened."""


def read(
    snapshot: OpenedSnapshot, directory: Path, operator: str | None = None, state: str | None = None
) -> Iterator[Entry]:
    """All entries, or those of one operator or state, shard by shard; ``directory`` takes one shard's files at a time.

    Raises ``SpecInvalid`` for an operator or state that the snapshot does not have, and for the files of a backend of
    the user's own; ``CorruptData`` for damaged ones.
    """
    chosen = _Choice(operator, state)
    _require_known(snapshot, chosen)
    _require_readable(snapshot)
    downloader = Downloader(snapshot.store)
    try:
        downloader.expect([(shard, ()) for shard in snapshot.metadata.shards], directory)
        for shard in snapshot.metadata.shards:
            folder = directory / str(shard.shard)
            files = downloader.fetch(shard, folder)
            with _canonical(shard, files, snapshot.metadata.key_space, folder) as paths:
                for path in paths:
                    yield from _of_file(canonical.CanonicalFile(path), chosen)
            shutil.rmtree(folder, ignore_errors=True)
        if parts := snapshot.metadata.operator_state:
            for part in operator_parts.in_force(operator_parts.read(downloader, parts, snapshot.store.url)):
                for each in part.states:
                    if chosen.has(each.uid, each.name):
                        yield from _of_operator(each, part.slot)
    finally:
        downloader.close()


@dataclasses.dataclass(frozen=True)
class _Choice:
    operator: str | None
    state: str | None

    def has(self, uid: str, name: str) -> bool:
        return self.operator in (None, uid) and self.state in (None, name)


def _require_known(snapshot: OpenedSnapshot, chosen: _Choice) -> None:
    operators = snapshot.metadata.operators
    if chosen.operator is not None and chosen.operator not in operators:
        raise errors.SpecInvalid(
            f"--operator {chosen.operator}: {snapshot.url} has no operator of this uid; it has {_listed(operators)}"
        )
    names = {each.name for each in snapshot.metadata.states if chosen.operator in (None, each.uid)}
    # Timers are in tables of the engine's own, which `_metadata` does not name.
    if chosen.state is not None and chosen.state not in names and not chosen.state.startswith("_"):
        raise errors.SpecInvalid(
            f"--state {chosen.state}: {snapshot.url} has no state of this name; it has {_listed(sorted(names))}"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _require_readable(snapshot: OpenedSnapshot) -> None:
    for shard in snapshot.metadata.shards:
        if shard.files and shard.format not in (canonical.FORMAT, _ROCKSDB):
            raise errors.SpecInvalid(
                f"{snapshot.url} has files that only the job's own backend reads ({shard.format}); take a canonical "
                "savepoint: sparkstate savepoint JOB.YAML"
            )


@contextlib.contextmanager
def _canonical(
    shard: ShardHandle, files: Mapping[str, Path], key_space: KeySpace, folder: Path
) -> Iterator[list[Path]]:
    """The canonical files of a shard. RocksDB's own files are opened, and written as a savepoint would write them."""
    if shard.format != _ROCKSDB:
        yield list(files.values())
        return
    settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=_MEMORY_BYTES)
    target = folder / "canonical"
    target.mkdir()
    with contextlib.closing(loader.create_store_factory(settings, folder / "factory")) as factory:
        key_groups = key_space.key_groups_of_shard(shard.shard)
        with contextlib.closing(factory.create(shard.shard, key_groups, folder / "store")) as store:
            store.restore(files, shard.format)
            taken = store.prepare_snapshot(1, target, True)
            try:
                yield [file.path for file in taken.files()]
            finally:
                taken.release()


# -- keyed state -------------------------------------------------------------------------------------------------------


def _of_file(file: canonical.CanonicalFile, chosen: _Choice) -> Iterator[Entry]:
    readers = [_Reader(table) if chosen.has(table.uid, table.name) else None for table in file.tables]
    for table, rows in file.blocks():
        reader = readers[table]
        if reader is not None:
            for row in rows:
                yield reader.entry(CanonicalRow(table, *row))


class _Reader:
    """The rows of one table, in their order."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._codec = canonical.TableCodec(spec)
        self._type = None if spec.value_type is None else _without_pickle(spec.value_type.describe())
        self._list: tuple[bytes, bytes] | None = None
        self._index = 0

    def entry(self, row: CanonicalRow) -> Entry:
        entry: Entry = {
            "operator": self._spec.uid,
            "state": self._spec.name,
            "kind": self._spec.kind.value,
        }
        if self._spec.kind in TIMER_KINDS:
            timer = self._codec.timer(row)
            entry |= _place(timer.key, timer.namespace)
            return {**entry, "timestamp": timer.timestamp}
        cell = self._codec.cell(row.key, row.namespace)
        is_spaced = isinstance(cell, base.NamespacedCell)
        entry |= _place(cell.key, cell.namespace) if is_spaced else _place(cell, None)
        if self._spec.kind is StateKind.MAP:
            assert self._codec.user_key is not None
            entry["map_key"] = shown(self._codec.user_key.decode(row.sub)[0])
        elif self._spec.kind is StateKind.LIST:
            entry["index"] = self._count(row)
        assert self._type is not None
        return {**entry, **_value(self._type, row.value)}

    def _count(self, row: CanonicalRow) -> int:
        """The place of an element: positions of a list may begin anywhere and have gaps."""
        same = self._list == (row.key, row.namespace)
        self._list, self._index = (row.key, row.namespace), self._index + 1 if same else 0
        return self._index


def _place(key: Any, namespace: Any) -> Entry:
    found: Entry = {"key": shown(key)}
    if namespace is not None:
        found["namespace"] = shown(composite.as_given(namespace))
    return found


def _without_pickle(description: str) -> TypeInformation:
    return types.parse(description, types.WITHOUT_PICKLE)


def _value(value_type: TypeInformation, data: bytes) -> Entry:
    """The value, and the stamp of one that expires."""
    stored = value_type.decode(data)
    if isinstance(value_type, expiring.ExpiringType):
        stamp, stored = stored if stored is not None else (expiring.NO_STAMP, None)
        stamped: Entry = {} if stamp == expiring.NO_STAMP else {"stamp_ms": stamp}
        return {"value": _thawed(value_type.value_type, stored), **stamped}
    return {"value": _thawed(value_type, stored)}


def _thawed(value_type: TypeInformation, stored: Any) -> Any:
    if stored is None:
        return None
    if isinstance(value_type, packed.PackedType):
        return shown(value_type.read(stored))
    return shown(value_type.thaw(stored))


# -- operator state ----------------------------------------------------------------------------------------------------


def _of_operator(state: StoredState, slot: int) -> Iterator[Entry]:
    value_type = _without_pickle(state.value_type)
    key = composite.key_codec(types.parse(state.key_type)) if state.key_type else None
    for number, data in enumerate(state.values):
        place: Entry = (
            {"index": number} if key is None else {"map_key": shown(key.decode(state.keys[number])[0])}
        )
        yield {
            "operator": state.uid,
            "state": state.name,
            "kind": operator_parts.KINDS[state.mode],
            "slot": slot,
            **place,
            **_value(value_type, data),
        }


# -- JSON --------------------------------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """As ``sparkstate state get`` shows values, with rows by the names of their fields."""
    if isinstance(value, containers.UnreadValue):
        return {"pickle": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Row) and value.__fields__:
        return {name: shown(item) for name, item in zip(value.__fields__, value, strict=True)}
    if isinstance(value, Mapping):
        return {str(inspection.to_json(key)): shown(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [shown(item) for item in value]
    return inspection.to_json(value)
