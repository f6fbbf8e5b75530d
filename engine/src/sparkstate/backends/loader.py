"""From settings to a store factory, importing RocksDB only for those who asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sparkstate import errors
from sparkstate.backends.base import StoreFactory
from sparkstate.clock import Clock, SystemClock
from sparkstate.settings import StateBackendSettings

_OWN: Final = "custom"
"""The folder of a backend of the user's own, beside those of its shards."""


def create_store_factory(
    settings: StateBackendSettings, directory: Path, clock: Clock | None = None
) -> StoreFactory:
    """The factory of the stores of one slot, to be made in the slot's own process after its ``exec``.

    ``directory`` is the slot's folder for working files. Raises :class:`errors.SpecInvalid` for a type that
    does not exist, and for ``rocksdb`` where rocksdict is not installed; for ``custom`` as ``custom.loading`` does.
    """
    if settings.type == "hashmap":
        from sparkstate.backends.hashmap.store import HashMapStoreFactory

        return HashMapStoreFactory()
    if settings.type == "rocksdb":
        try:
            from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
        except ModuleNotFoundError as error:
            if error.name != "rocksdict":
                raise
            raise errors.SpecInvalid(
                "stateBackend.type is rocksdb, and the package rocksdict is not installed; "
                "install it with: pip install 'sparkstate[rocksdb]'"
            ) from error
        return RocksDBStoreFactory(settings, directory, clock if clock is not None else SystemClock())
    if settings.type == "custom":
        from sparkstate.backends.custom import loading

        return loading.make_factory(settings, directory / _OWN)
    raise errors.SpecInvalid(f"stateBackend.type is {settings.type!r}; it must be hashmap, rocksdb or custom")
