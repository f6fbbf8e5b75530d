"""From handles to verified local files. A file is handed on once its size and SHA-256 are right: compared here, or, for
a file that the caller vouches for, when a slot noted them (``local_state.verified_files``).

A file that somebody has put under the name :func:`beforehand` is taken if both are right, and else downloaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from pathlib import Path

import msgspec

from sparkstate import errors, local_disk
from sparkstate.checkpoint.merged_files import MergedFiles
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.settings import MIB
from sparkstate.storage.arriving import checksum_of_old, file_checksum
from sparkstate.storage.objectstore import ObjectStore

_Wanted = tuple[FileHandle, Path]
_log = logging.getLogger("sparkstate.checkpoint")


class Downloader:
    """Fetches the files of shards with ``threads`` at once. ``store`` is rooted where the handles' paths begin."""

    def __init__(self, store: ObjectStore, threads: int = 4, transfer: Transfer | None = None) -> None:
        """``transfer`` counts the bytes of the files that are there."""
        self._store = store
        self._transfer = transfer or Transfer()
        self._closed = threading.Event()
        self._count = threading.Lock()
        self.found_bytes = 0
        """Of the files that were fetched, what was on this disk already."""
        self._merged = MergedFiles((), Path())
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="download")

    def expect(self, wanted: Sequence[tuple[ShardHandle, Collection[str]]], directory: Path) -> None:
        """Each of these shards will be fetched once, with these files ``right``.

        An object in which several of them have files is then downloaded once, and lies in ``directory`` (created)
        until the last of them has its own.
        """
        with _arriving_in(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._merged = MergedFiles((_without(shard, right) for shard, right in wanted), directory)

    def fetch(self, shard: ShardHandle, directory: Path, right: Collection[str] = ()) -> dict[str, Path]:
        """Logical name → local file for one shard, in ``directory`` (created). Raises ``CorruptData``.

        Files whose names are ``right`` lie there already, and are known to be what the handle says.
        """
        there = [handle for handle in shard.files if handle.name in right]
        with self._count:
            self.found_bytes += sum(handle.size for handle in there)
        self._transfer.add(sum(handle.size for handle in there))
        fetched = self.fetch_all([(_without(shard, right), directory)])[0]
        return {**{handle.name: directory / handle.name for handle in there}, **fetched}

    def fetch_all(self, wanted: Sequence[tuple[ShardHandle, Path]]) -> list[dict[str, Path]]:
        """As :meth:`fetch` for several shards, all their objects in parallel, each object once.

        When an error is raised, all transfers have ended. Once :meth:`close` has been called, it raises
        ``StorageError``, even in the middle of its work.
        """
        self._require_open()
        results: list[dict[str, Path]] = []
        objects: dict[str, list[_Wanted]] = {}
        for shard, directory in wanted:
            results.append({handle.name: directory / handle.name for handle in shard.files})
            with _arriving_in(directory):
                directory.mkdir(parents=True, exist_ok=True)
                self._write_inline(shard, directory)
            for handle in shard.files:
                if handle.inline is None:
                    objects.setdefault(handle.path, []).append((handle, directory / handle.name))
        futures: list[Future[None]] = []
        try:
            futures.extend(map(self._submit, objects.values()))
            for future in futures:
                future.result()
        except errors.StorageError as error:
            raise type(error)(f"Failed to restore state from file system: {error}") from error
        except CancelledError as error:
            raise errors.StorageError("closed") from error
        finally:
            # One that was cancelled never runs; and if it was in the queue when `close` emptied that, waiting for it
            # would never end.
            wait([future for future in futures if not future.cancel()])
        return results

    def _write_inline(self, shard: ShardHandle, directory: Path) -> None:
        for handle in shard.files:
            if handle.inline is not None:
                (directory / handle.name).write_bytes(self.read(handle))
                self._transfer.add(handle.size)

    def read(self, handle: FileHandle) -> bytes:
        """The verified bytes of one small file."""
        self._require_open()
        data = handle.inline
        if data is None:
            data = self._get(handle)[handle.offset : handle.offset + handle.size]
        _verify(handle, len(data), "sha256:" + hashlib.sha256(data).hexdigest(), self._store.url)
        return data

    def close(self) -> None:
        """End the threads; a :meth:`fetch` under way in another thread ends with ``StorageError``. May be repeated."""
        self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._merged.close()

    def _submit(self, files: Sequence[_Wanted]) -> Future[None]:
        try:
            return self._pool.submit(self._fetch_object, files)
        except RuntimeError as error:  # the pool was shut down meanwhile
            raise errors.StorageError("closed") from error

    def _fetch_object(self, files: Sequence[_Wanted]) -> None:
        """Download one object, which is one file or several merged ones."""
        self._require_open()
        missing = [wanted for wanted in files if not self._found(*wanted)]
        if missing:
            with _arriving_in(files[0][1].parent):
                self._download(missing, whole_object=len(files) == 1)
        self._merged.used(files[0][0].path)
        self._transfer.add(sum(handle.size for handle, _ in files))

    def _found(self, handle: FileHandle, target: Path) -> bool:
        """Whether the file was there beforehand; then it is ``target`` now."""
        local = beforehand(target)
        try:
            if local.stat().st_size == handle.size and checksum_of_old(local) == handle.checksum:
                local.replace(target)
                with self._count:
                    self.found_bytes += handle.size
                return True
            _log.warning(
                "the local copy of %s is another file or damaged, so the file is downloaded", handle.name
            )
        except FileNotFoundError:
            return False
        except OSError as error:
            _log.warning(
                "the local copy of %s cannot be read (%s), so the file is downloaded", handle.name, error
            )
        local.unlink(missing_ok=True)
        return False

    def _download(self, files: Sequence[_Wanted], *, whole_object: bool) -> None:
        first, target = files[0]
        merged = self._merged.local(first.path, lambda copy: self._get_file(first, copy))
        if merged is not None:
            self._take_out(merged, files)
            return
        whole = target.with_name(f".{target.name}.download")
        arrived = self._get_file(first, whole)
        try:
            if whole_object and first.offset == 0 and whole.stat().st_size == first.size:
                _verify(first, first.size, arrived, self._store.url)
                whole.replace(target)
                return
            self._take_out(whole, files)
        finally:
            whole.unlink(missing_ok=True)

    def _take_out(self, whole: Path, files: Sequence[_Wanted]) -> None:
        """Of several files that lie in one object."""
        for handle, path in files:
            _copy_part(whole, handle, path)
            _verify(handle, path.stat().st_size, file_checksum(path), self._store.url)

    def _get_file(self, handle: FileHandle, whole: Path) -> str:
        self._require_open()
        try:
            return self._store.get_file(handle.path, whole)
        except errors.NotFound as error:
            raise _missing(handle, self._store.url) from error

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise errors.StorageError("closed")

    def _get(self, handle: FileHandle) -> bytes:
        try:
            return self._store.get(handle.path)
        except errors.NotFound as error:
            raise _missing(handle, self._store.url) from error


def _arriving_in(directory: Path) -> contextlib.AbstractContextManager[None]:
    return local_disk.used_for(f"writing files of the snapshot to {directory}")


def beforehand(target: Path) -> Path:
    """Where a file may lie that is perhaps what will be fetched to ``target``; it is gone afterwards."""
    return target.with_name(f".{target.name}.beforehand")


def _without(shard: ShardHandle, names: Collection[str]) -> ShardHandle:
    files = tuple(handle for handle in shard.files if handle.name not in names)
    return msgspec.structs.replace(shard, files=files)


def _copy_part(whole: Path, handle: FileHandle, path: Path) -> None:
    """The bytes of one file out of a merged object; fewer than its size if the object is too short."""
    with whole.open("rb") as source, path.open("wb") as target:
        source.seek(handle.offset)
        left = handle.size
        while left and (data := source.read(min(left, MIB))):
            target.write(data)
            left -= len(data)


def _missing(handle: FileHandle, url: str) -> errors.CorruptData:
    return errors.CorruptData(
        f"{url}/{handle.path} ({handle.name}, {handle.size} bytes) is missing; keep the other files, put it "
        "back from a "
        "copy of the bucket, or restore from an older checkpoint or a savepoint with restoreFrom"
    )


def _verify(handle: FileHandle, size: int, checksum: str, url: str) -> None:
    where = (
        f"{url}/{handle.path} ({handle.name})" if handle.path else f"inline file {handle.name} under {url}"
    )
    remedy = (
        "it was changed after it was written; keep the files and restore from an older checkpoint or a "
        "savepoint with "
        "restoreFrom"
    )
    if size != handle.size:
        raise errors.CorruptData(f"{where} has {size} bytes, {handle.size} were written: {remedy}")
    if checksum != handle.checksum:
        raise errors.CorruptData(f"{where} has the checksum {checksum}, not {handle.checksum}: {remedy}")
