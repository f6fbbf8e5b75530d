"""Whether a savepoint can be taken where somebody wants it, told before the request is taken."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkstate import errors, storage
from sparkstate.log.state import LogState
from sparkstate.settings import S3Settings
from sparkstate.storage import naming, opening, probe, retrying
from sparkstate.storage.objectstore import ObjectStore

ANSWER_S = 5.0
"""A storage that takes longer to refuse is tried when the savepoint is taken."""
_AT_ONCE = 4


def check_name(url: str, lineage_url: str) -> str:
    """The normalised URL of a target directory. Raises ``SpecInvalid`` for one that no savepoint can lie in."""
    normal = naming.normalise_url(url)
    if not url.startswith(("s3://", "s3a://", "s3n://", "file:/", "/")):
        raise errors.SpecInvalid(
            f"target_directory is {url!r}, relative to a folder that only the driver knows; write file:///path or "
            "s3://bucket/prefix"
        )
    if naming.is_local(normal) and (long := naming.too_long(naming.local_path(normal))):
        raise errors.SpecInvalid(f"target_directory is {url!r}; {long}")
    if naming.is_within(normal, lineage_url):
        raise errors.SpecInvalid(
            f"target_directory is {url!r}, which lies in the job's own state ({lineage_url}) and would be swept with "
            "it; choose a folder outside"
        )
    return normal


def may_be_made(url: str, root: ObjectStore, state: LogState, besides: str = "") -> bool:
    """Whether the folder ``url`` of savepoints may be made where it is missing.

    One that savepoints were stored in is not missing: its volume is not mounted. Within the checkpoints' storage,
    ``root``, it is made whenever that is there; raises ``StorageUnavailable`` if it is not. ``besides``: a savepoint
    that does not count, since it has only been named.
    """
    normal = naming.normalise_url(url)
    if is_within(url, root):
        opening.require_there(root)
        return True
    known = {*(taken.url for taken in state.savepoints), *(begun.url for begun in state.started_savepoints)}
    return normal not in {naming.split_url(folder)[0] for folder in known - {besides}}


def is_within(url: str, root: ObjectStore) -> bool:
    """Whether the folder ``url`` lies in the checkpoints' storage."""
    return naming.is_within(naming.normalise_url(url), root.url)


class Targets:
    """Tries targets by writing, thread-safe; ``lineage_url`` is empty while none is claimed. ``made`` tells of a target
    whether its folder may be made, and raises ``StorageUnavailable`` where that is open."""

    def __init__(
        self,
        s3: S3Settings,
        lineage_url: Callable[[], str],
        answer_s: float = ANSWER_S,
        made: Callable[[str], bool] = lambda url: True,
    ) -> None:
        self._s3 = s3
        self._lineage_url = lineage_url
        self._made = made
        self._answer_s = answer_s
        self._trying = threading.BoundedSemaphore(_AT_ONCE)

    def require(self, url: str) -> None:
        """Raises ``SpecInvalid`` or ``StorageError`` for a target that is refused now. One that is merely away, or
        does not answer in time, may be there when the savepoint is taken."""
        normal = check_name(url, self._lineage_url() or "none:")
        if not self._trying.acquire(blocking=False):
            return
        refused: list[Exception] = []
        over = threading.Event()

        def attempt() -> None:
            try:
                self._write(normal)
            except Exception as error:
                refused.append(error)
            finally:
                self._trying.release()
                over.set()

        threading.Thread(target=attempt, name="savepoint-target", daemon=True).start()
        over.wait(self._answer_s)
        if refused and not isinstance(refused[0], errors.StorageUnavailable):
            raise _refusal(url, refused[0])

    def _write(self, url: str) -> None:
        opened = storage.open_store if self._made(url) else storage.open_made
        probe.require_writable(opened(url, self._s3, retry=retrying.RetryPolicy(attempts=1)))


def _refusal(url: str, error: Exception) -> errors.SparkstateError:
    if isinstance(error, errors.SparkstateError):
        return error
    return errors.StorageError(
        f"target_directory is {url!r}, which cannot be written to: {type(error).__name__}: {error}"
    )
