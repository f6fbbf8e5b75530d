"""From a URL to a store that is ready for use."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from sparkstate import errors
from sparkstate.clock import Clock, SystemClock
from sparkstate.settings import S3Settings
from sparkstate.storage import local, memory, naming, probe, retrying
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.prefixed import PrefixedStore


def open_store(
    url: str,
    s3: S3Settings | None = None,
    *,
    check: bool = False,
    create: bool = True,
    retry: retrying.RetryPolicy | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
) -> ObjectStore:
    """The store of a ``file://`` or ``s3://`` URL (or a plain path), with retries.

    ``check`` proves first that create-if-absent is honoured (two writes and a delete): the driver and the
    commands that write to the log ask for it, slots and readers need not. ``create=False``: a missing local folder is
    ``NotFound`` and not made. Raises ``SpecInvalid`` for another scheme, ``StorageError`` if access is refused.
    """
    store = retrying.RetryingStore(
        _plain_store(naming.normalise_url(url), s3 or S3Settings(), create),
        retry or retrying.RetryPolicy(),
        rng or random.Random(),
        clock or SystemClock(),
    )
    if check:
        probe.require_conditional_create(store)
    return store


def open_made(
    url: str,
    s3: S3Settings | None = None,
    *,
    retry: retrying.RetryPolicy | None = None,
) -> ObjectStore:
    """The store of a URL whose local folder exists, since somebody of the job made or read it before.

    A missing one is ``StorageUnavailable``: its volume may be unmounted, and a folder made now would lie on the wrong
    disk. ``retry`` as in :func:`open_store`.
    """
    try:
        return open_store(url, s3, create=False, retry=retry)
    except errors.NotFound as error:
        raise errors.StorageUnavailable(
            f"{error}, and there was one; is its volume mounted? If it was deleted on purpose, make the folder"
        ) from error


def open_within(
    root: ObjectStore, folder: str, s3: S3Settings | None = None, *, make: bool = True
) -> ObjectStore:
    """The objects of ``root`` under ``folder``, with names relative to it.

    On disk the folder is made unless ``make`` is False, and from then on required: where ``root`` is a mount point, it
    is there without its volume too, and the folder is not. In a bucket this is ``root``'s own client.
    """
    if not naming.is_local(root.url):
        return PrefixedStore(root, folder)
    url = naming.join_url(root.url, folder)
    if not make:
        return open_made(url, s3)
    require_there(root)
    return open_store(url, s3)


def open_inside(url: str, s3: S3Settings | None = None) -> ObjectStore:
    """The objects in the folder ``url``, for writing; temporary files go into the folder above it.

    On a disk both must be there, else ``StorageUnavailable``: the one above may be a mount point without its volume.
    """
    parent, name = naming.split_url(naming.normalise_url(url))
    above = open_made(parent, s3)
    if naming.is_local(above.url):
        local.look_anew(naming.local_path(above.url))
        open_made(url, s3)
    return PrefixedStore(above, name)


def require_there(store: ObjectStore) -> None:
    """Raise ``StorageUnavailable`` if ``store`` is on a disk and its folder, or its volume, is gone."""
    if naming.is_local(store.url):
        store.list(f"{probe.FOLDER}/")


def _plain_store(url: str, s3: S3Settings, create: bool) -> ObjectStore:
    if naming.is_memory(url):
        whole = memory.of_process()
        return whole if url == whole.url else PrefixedStore(whole, url.removeprefix(f"{whole.url}/"))
    if naming.is_local(url):
        return local.LocalStore(url, create=create)
    try:
        from sparkstate.storage.s3 import S3Store
    except ImportError as error:
        raise errors.SpecInvalid(
            f"{url} needs boto3 ({error}); install it with: pip install 'sparkstate[s3]'"
        ) from error
    return S3Store(url, s3)


class OpenStores:
    """The stores that were used last, by URL: a savepoint may name a folder of its own each time, and on S3 each open
    one holds connections and megabytes. Those that :meth:`hold` names stay open besides. Thread-safe."""

    MOST = 16

    def __init__(self, s3: S3Settings) -> None:
        self._s3 = s3
        self._lock = threading.Lock()
        self._by_url: OrderedDict[str, ObjectStore] = OrderedDict()
        self._seen: set[str] = set()
        self._held: frozenset[str] = frozenset()

    def hold(self, urls: Iterable[str]) -> None:
        """Let none of these go once it is open: a store that is opened again where its volume was takes the mount point
        for its folder. Replaces what was held before."""
        with self._lock:
            self._held = frozenset(naming.normalise_url(url) for url in urls)

    def get(self, url: str) -> ObjectStore:
        """The store of ``url``, opened by :func:`open_made` if it is not open."""
        return self._kept(url, lambda: open_made(url, self._s3))

    def make(self, url: str, *, again: bool = False) -> ObjectStore:
        """As :meth:`get`, and a local folder is made the first time that its URL is seen;
        ``again``: each time that it is missing."""
        seen = naming.normalise_url(url) in self._seen
        if seen and again:
            open_store(url, self._s3)  # the store that is open has its folder again
        return self.get(url) if seen else self._kept(url, lambda: open_store(url, self._s3))

    def _kept(self, url: str, opened: Callable[[], ObjectStore]) -> ObjectStore:
        url = naming.normalise_url(url)
        with self._lock:
            known = self._by_url.get(url)
        # A volume that hangs must not hold up those who want another one.
        new = opened() if known is None else known
        with self._lock:
            found = self._by_url.pop(url, None) or new
            self._by_url[url] = found
            self._seen.add(url)
            others = [known for known in self._by_url if known not in self._held]
            for old in others[: max(0, len(others) - self.MOST)]:
                del self._by_url[old]  # who uses it still has it
            return found

    def __len__(self) -> int:
        return len(self._by_url)
