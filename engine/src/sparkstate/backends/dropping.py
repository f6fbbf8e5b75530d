"""A restore without the state of some operators, which the job no longer has.

A snapshot keeps it for as long as the snapshot itself is kept. Only the stores that are filled from it, and so all
later snapshots, are without it.

A canonical file is copied without the tables of these operators, so that no store has to know of them, and none takes
up more than it keeps. A format of a store's own holds all tables together. Such a store drops them when it is filled,
where it is a ``DroppingStore``. From any other store, a canonical file brings the rest into a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from sparkstate.backends import canonical
from sparkstate.backends.base import ShardSnapshot, ShardStore, StreamedSnapshot

_COPY: Final = ".kept"


@runtime_checkable
class DroppingStore(Protocol):
    """A store that can let go of whole tables. It is worth having where a checkpoint has a format of the store's own:
    other stores write all that they keep anew."""

    def drop(self, uids: Collection[str]) -> None:
        """Let go of all tables of these operators, with their rows and timers. No later snapshot has them, and such a
        table is empty when it is asked for again. Called after ``restore``, before anything else."""


def without(files: Mapping[str, Path], uids: Collection[str]) -> Mapping[str, Path]:
    """Canonical files by name. Those that have tables of these operators are copied without them, and the copies lie
    beside the files. Raises as :class:`canonical.CanonicalFile`."""
    return {name: _without(path, uids) for name, path in files.items()}


def _without(path: Path, uids: Collection[str]) -> Path:
    file = canonical.CanonicalFile(path)
    if not any(spec.uid in uids for spec in file.tables):
        return path
    return _copied(file, path.with_name(path.name + _COPY), uids)


def _copied(file: canonical.CanonicalFile, target: Path, uids: Collection[str]) -> Path:
    kept = [number for number, spec in enumerate(file.tables) if spec.uid not in uids]
    new_numbers = {before: now for now, before in enumerate(kept)}
    blocks = (
        canonical.RowBlock(new_numbers[block.table], block.rows)
        for block in file.blocks()
        if block.table in new_numbers
    )
    with target.open("wb") as copy:
        for data in canonical.stream([file.tables[number] for number in kept], blocks):
            copy.write(data)
    return target


def drop(store: ShardStore, uids: Collection[str], directory: Path, renew: Callable[[], ShardStore]) -> None:
    """Drop what a filled store has of these operators. ``renew`` closes it and gives an empty one in its place, for
    stores that cannot; ``directory`` is for the file that goes between the two."""
    if not any(spec.uid in uids for spec in store.tables()):
        return
    if isinstance(store, DroppingStore):
        store.drop(uids)
        return
    directory.mkdir(parents=True, exist_ok=True)
    copy = _kept_by(store, uids, directory)
    renew().restore({canonical.FORMAT: copy}, canonical.FORMAT)


def _kept_by(store: ShardStore, uids: Collection[str], directory: Path) -> Path:
    """A canonical file of the store's other tables."""
    taken = store.prepare_snapshot(0, directory, canonical=True)
    try:
        whole = _written(taken, directory)
        return _copied(canonical.CanonicalFile(whole), directory / _COPY, uids)
    finally:
        taken.release()


def _written(taken: ShardSnapshot, directory: Path) -> Path:
    """The one file of a canonical snapshot, on the disk."""
    if not isinstance(taken, StreamedSnapshot):
        return next(iter(taken.files())).path
    target = directory / "whole"
    with target.open("wb") as file:
        for data in _chunks(taken):
            file.write(data)
    return target


def _chunks(taken: StreamedSnapshot) -> Iterator[bytes]:
    for stream in taken.streams():
        yield from stream.chunks()
