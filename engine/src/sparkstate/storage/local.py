"""Objects as files of a local (or mounted) folder.

An object appears whole or not at all: bytes go into a temporary file in ``.tmp/`` under the root, are flushed to disk,
and get their name by a hard link. A rename would replace an object that is there; a link fails if the name is taken.
The directory is flushed too, so that a name that was reported as created survives a power cut.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from sparkstate import errors
from sparkstate.storage import mounts, naming, renaming, temporary_files
from sparkstate.storage.arriving import CHUNK, arriving
from sparkstate.storage.objectstore import ObjectInfo, Upload
from sparkstate.storage.renaming import Renamed

TEMPORARY = ".tmp"
STALE_TEMPORARY_S = 24 * 3600.0
"""After this time a half-written file of an unknown host counts as abandoned (RFC 0014)."""
_ATTEMPTS = 8

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class LocalStore:
    """An :class:`ObjectStore` on a folder, which is created when the store is opened and never again after.

    With ``create=False`` a missing folder is ``NotFound``, and nothing is changed before the first write: what is only
    read may lie on a read-only volume.

    A root that vanishes later is a mount that went away: every operation then raises ``StorageUnavailable``,
    because an empty answer would read as "there is no state". The same holds where nothing is mounted any more at the
    place at which the root's volume was mounted when the store was opened: what lies there now is another disk.
    """

    def __init__(self, url: str, ids: Callable[[], str] = naming.random_id, *, create: bool = True) -> None:
        self._url = naming.normalise_url(url)
        self._root = naming.local_path(self._url)
        self._ids = ids
        self._prefix = f"{socket.gethostname()}-{os.getpid()}"
        self._mount: Path | None = None
        self._is_swept = False
        with self._mapped("open", ""):
            if create:
                _make(self._root)
            elif self._root.exists() and not self._root.is_dir():
                raise FileExistsError(errno.EEXIST, "there is a file", str(self._root))
            elif not self._root.is_dir():
                raise errors.NotFound(f"there is no folder {self._root}")
            self._mount = mounts.mount_of(self._root)
            if create:
                self._remove_stale_temporaries()

    @property
    def url(self) -> str:
        return self._url

    def put_if_absent(self, key: str, data: bytes) -> None:
        with self._mapped("create", key):
            self._publish(key, lambda temporary: _write(temporary, data))

    def put_file(self, key: str, source: Path) -> None:
        source.stat()  # the caller's file: its absence is not the storage's error
        with self._mapped("store", key):
            try:
                self._publish(key, lambda temporary: _copy(source, temporary))
            except FileExistsError:
                # Ours, of a try before whose directory could not be flushed; a name is used once.
                if not filecmp.cmp(source, self._path(key), shallow=False):
                    raise
                _flush_directory(self._path(key).parent)

    def upload(self, key: str) -> Upload:
        with self._mapped("store", key):
            return _LocalUpload(self, key)

    def get(self, key: str) -> bytes:
        with self._mapped("read", key):
            self._require_root()
            return self._path(key).read_bytes()

    def get_file(self, key: str, target: Path) -> str:
        with self._mapped("read", key):
            self._require_root()
            source = self._path(key).open("rb")
        with source, arriving(target, os.fstat(source.fileno()).st_size, self._ids) as file:
            while data := self._read(source, key):
                file.write(data)
            return file.finish()

    def head(self, key: str) -> ObjectInfo:
        with self._mapped("look up", key):
            self._require_root()
            return _info(key, self._path(key).stat())

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self._mapped("list", prefix):
            self._require_root()
            found = sorted(self._walk(prefix), key=lambda info: info.key)
        return iter(found)

    def begin_move(self, source: str, target: str) -> str:
        """A rename takes the source away, and so cannot be done twice."""
        with self._mapped("look up", source):
            self._require_root()
            self._path(source).stat()
        return "rename"

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        del ticket, size
        with self._mapped("move", source):
            self._require_root()
            return self._rename(source, target)

    def _rename(self, source: str, target: str) -> bool:
        path = self._path(source)
        for _ in range(_ATTEMPTS):
            parent = self._make_parent(target)
            came = renaming.rename(path, self._path(target))
            if came is Renamed.NO_FOLDER:
                continue  # a delete elsewhere pruned the empty folder
            self._require_root()  # on a bare mount point the source is missing too, and would count as published
            # Even where another process has renamed it: that one may have died before its own flush.
            _flush_directory(parent)
            with contextlib.suppress(FileNotFoundError):
                _flush_directory(path.parent)
            return came is Renamed.NOW
        raise FileNotFoundError(
            errno.ENOENT, "its folder is deleted again and again", str(self._path(target))
        )

    def drop_move(self, ticket: str, target: str) -> None:
        """Nothing is kept for it."""

    def abort_uploads(self, prefix: str, is_dead: Callable[[str], bool], before_ms: int | None = None) -> int:
        """Nothing: what was written of a file goes with the next store that writes, once its writer is dead."""
        return 0

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._mapped("delete", key):
                self._require_root()
                path = self._path(key)
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                self._prune(path.parent)

    def _read(self, source: IO[bytes], key: str) -> bytes:
        with self._mapped("read", key):
            return source.read(CHUNK)

    def _path(self, key: str) -> Path:
        return self._root / naming.check_key(key)

    def _publish(self, key: str, fill: Callable[[Path], None]) -> None:
        self._path(key)
        self._require_root()
        with self._temporary() as temporary:
            fill(temporary)
            self._link(temporary, key)

    def _link(self, temporary: Path, key: str) -> None:
        """Give a whole and flushed file its name."""
        for attempt in range(_ATTEMPTS):
            parent = self._make_parent(key)
            try:
                os.link(temporary, self._path(key))
            except FileNotFoundError:
                # A delete elsewhere pruned the empty folder between our mkdir and the link.
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            except FileExistsError:
                # Itself: of a try whose directory could not be flushed, or whose answer was lost (NFS asks again).
                if not self._path(key).samefile(temporary):
                    raise
            _flush_directory(parent)
            return

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[Path]:
        path = self._new_temporary()
        with temporary_files.removed(path):
            yield path

    def _new_temporary(self) -> Path:
        folder = self._root / TEMPORARY
        self._require_root()
        self._remove_stale_temporaries()
        folder.mkdir(exist_ok=True)
        return folder / f"{self._prefix}-{self._ids()}"

    def _make_parent(self, key: str) -> Path:
        parent = self._path(key).parent
        missing = []
        folder = parent
        while folder != self._root and not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            with contextlib.suppress(FileNotFoundError):
                folder.mkdir(exist_ok=True)
                _flush_directory(folder.parent)
        return parent

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        """Opens only folders in which such names can lie, and asks for the size of nothing else."""
        parent, _, begin = prefix.rpartition("/")
        folders = [(self._root / parent, f"{parent}/" if parent else "", begin)]
        while folders:
            folder, base, begin = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    found = [entry for entry in entries if entry.name.startswith(begin)]
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted meanwhile, or never there
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != TEMPORARY:
                        folders.append((folder / entry.name, f"{base}{entry.name}/", ""))
                elif not entry.is_dir():
                    with contextlib.suppress(FileNotFoundError):
                        yield _info(base + entry.name, entry.stat())

    def _prune(self, folder: Path) -> None:
        with contextlib.suppress(OSError):  # not empty, or gone already: both are fine
            while folder != self._root:
                if (folder / TEMPORARY).is_dir():  # of a store that was opened there
                    (folder / TEMPORARY).rmdir()
                folder.rmdir()
                folder = folder.parent

    def _require_root(self) -> None:
        gone = self._gone()
        if gone:
            raise errors.StorageUnavailable(gone)

    def _gone(self) -> str:
        """Why the folder is not the one that was opened; empty if it is."""
        if not self._root.is_dir():
            return f"the storage folder {self._root} is not there; is its volume mounted?"
        if self._mount is not None and not os.path.ismount(self._mount):
            return f"the storage folder {self._root} is gone: nothing is mounted at {self._mount} any more"
        return ""

    def _remove_stale_temporaries(self) -> None:
        folder, is_swept, self._is_swept = self._root / TEMPORARY, self._is_swept, True
        if is_swept or not folder.is_dir():
            return
        probe = folder / f"{self._prefix}-{self._ids()}"
        with temporary_files.removed(probe):
            probe.touch()
            now = probe.stat().st_mtime  # the storage's own clock, as a shared folder's may differ from ours
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if now - path.stat().st_mtime > STALE_TEMPORARY_S or temporary_files.writer_is_dead(
                        path.name
                    ):
                        path.unlink()

    @contextlib.contextmanager
    def _mapped(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._translate(error, operation, key) from error

    def _translate(self, error: OSError, operation: str, key: str) -> errors.StorageError:
        what = f"cannot {operation} {self._url}/{key}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            gone = self._gone()
            if gone:
                return errors.StorageUnavailable(f"{what}; {gone}")
            return errors.NotFound(what)
        if isinstance(error, FileExistsError) and operation != "open":
            return errors.AlreadyExists(what)
        if error.errno == errno.EROFS:
            return errors.StorageRefused(f"{what}; remount the volume for writing")
        if error.errno == errno.EACCES or (error.errno == errno.EPERM and operation != "create"):
            return errors.StorageRefused(
                f"{what}; give this user ({os.getuid()}) read and write access to the folder"
            )
        if error.errno in _NO_LINKS:
            return errors.StorageError(
                f"{what}; the file system has no hard links, so two drivers could not be told apart: "
                "use another folder, or S3"
            )
        if error.errno in _FULL:
            return errors.StorageUnavailable(f"{what}; free some space or enlarge the volume")
        if isinstance(error, FileExistsError | IsADirectoryError):
            return errors.StorageError(f"{what}; it must be a folder")
        return errors.StorageUnavailable(what)


def look_anew(folder: Path) -> None:
    """Forget that a name was not in ``folder`` a moment ago.

    An NFS client answers "there is none" from its cache for as long as it keeps the folder's attributes, up to 60 s by
    default (``acdirmax``). It asks the server for them when the folder itself is opened, and drops such answers where
    they have changed. Elsewhere this has no effect.
    """
    with contextlib.suppress(OSError):  # the look that follows says what is wrong
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


class _LocalUpload:
    """Parts go to their places in a temporary file."""

    def __init__(self, store: LocalStore, key: str) -> None:
        self._store, self._key = store, key
        store._path(key)
        self._temporary = store._new_temporary()
        self._file = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._open = True

    def part(self, number: int, offset: int, data: bytes | bytearray) -> None:
        del number
        with self._store._mapped("store", self._key):
            left = memoryview(data)
            while left:
                written = os.pwrite(self._file, left, offset)
                left, offset = left[written:], offset + written

    def complete(self, parts: int, size: int) -> None:
        del parts, size
        if not self._open:
            return
        with self._store._mapped("store", self._key):
            os.fsync(self._file)
            self._store._link(self._temporary, self._key)
        self.abort()

    def abort(self) -> None:
        """After :meth:`complete` nothing is left to do."""
        if self._open:
            self._open = False
            os.close(self._file)
        with contextlib.suppress(OSError):
            self._temporary.unlink()


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _make(root: Path) -> None:
    """With the folders above it, each flushed into the one that holds it: what is stored in ``root`` must not lose it
    by a power cut."""
    for folder in reversed([folder for folder in (root, *root.parents) if not folder.exists()]):
        folder.mkdir(exist_ok=True)
        _flush_directory(folder.parent)
    root.mkdir(exist_ok=True)  # raises if a file is there


def _flush_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _info(key: str, stat: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key=key, size=stat.st_size, modified_ms=stat.st_mtime_ns // 1_000_000)
