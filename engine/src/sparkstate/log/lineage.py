"""From a job's name to the life of its state.

``by-name/<cluster>/<namespace>/<name>/%012d`` are numbered pointers, each created if absent; the highest one
counts. A job that is deleted and created again under its name so finds its state. To start empty makes a new
lineage and a new pointer; nothing of the old one is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.log import framing
from sparkstate.settings import JobSettings
from sparkstate.storage import creating, naming
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.prefixed import PrefixedStore

FOLDER = "by-name"
MAGIC = b"SSNP"
VERSION = 1


class JobName(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a job: unique within ``cluster`` and ``namespace``."""

    cluster: str
    namespace: str
    name: str

    @classmethod
    def of(cls, settings: JobSettings) -> JobName:
        """The name that a job with these settings has."""
        return cls(cluster=settings.cluster, namespace=settings.namespace, name=settings.name)

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.name}"


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one pointer. ``attempt`` is the one that started empty, 0 for a first creation; ``uid`` the job
    object whose attempt it was, empty outside of clusters."""

    number: int
    lineage: str
    job: JobName
    created_ms: int
    attempt: int = 0
    previous: str = ""
    uid: str = ""


@dataclass(frozen=True)
class Lineage:
    """One state's life. ``store`` is rooted at its folder; all stored paths are relative to that."""

    id: str
    job: JobName
    store: ObjectStore
    created: bool
    """Whether this call created it; False means that the job's name had one already."""
    pointer: Pointer

    @property
    def short_id(self) -> str:
        """The first six digits, as savepoint folders carry them."""
        return self.id[:6]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Pointer)


def find(root: ObjectStore, job: JobName) -> Lineage | None:
    """The lineage of that name, or None. Writes nothing."""
    pointer = _newest_pointer(root, job)
    return _lineage(root, pointer, created=False) if pointer else None


def open_lineage(
    root: ObjectStore,
    job: JobName,
    clock: Clock,
    ids: Callable[[], str] = naming.random_id,
    *,
    start_empty: bool = False,
    attempt: int = 0,
    uid: str = "",
) -> Lineage:
    """Find or create the lineage of that name.

    ``start_empty`` makes a new one, once per ``attempt`` of the job object ``uid``: another life of the same
    attempt finds what the first life made, so an instruction left in a manifest cannot throw away the state
    that was built under it. ``attempt`` is the one that the instruction was given to; later ones name it too.
    """
    while True:
        pointer = _newest_pointer(root, job)
        if pointer and not (start_empty and (pointer.uid != uid or pointer.attempt < attempt)):
            return _lineage(root, pointer, created=False)
        fresh = Pointer(
            number=pointer.number + 1 if pointer else 1,
            lineage=ids(),
            job=job,
            created_ms=clock.now_ms(),
            attempt=attempt if start_empty else 0,
            uid=uid if start_empty else "",
            previous=pointer.lineage if pointer else "",
        )
        if _create(root, fresh):
            return _lineage(root, fresh, created=True)
        # Another driver was first: theirs counts.


def require(root: ObjectStore, job: JobName, known: str) -> None:
    """Raise ``StorageUnavailable`` unless the name pointed to the lineage ``known`` once, if that is not empty.

    Pointers are never deleted: a storage without that one is not new but away, as a mount point without its volume is,
    and what another driver began there is not the job's state. Writes nothing.
    """
    if known and not has_had(root, job, known):
        raise errors.StorageUnavailable(lost(root.url, job, known))


def has_had(root: ObjectStore, job: JobName, known: str) -> bool:
    """Whether the name points to the lineage ``known``, or did once."""
    return any(one.id == known for one in all_of(root, job))


def lost(url: str, job: JobName, known: str) -> str:
    """That a storage is without the state which it had, in a sentence."""
    return (
        f"{url} does not hold the lineage {known}, which {job} had there; is its volume mounted? If the state was "
        "deleted on purpose, set startEmpty: true"
    )


def all_of(root: ObjectStore, job: JobName) -> list[Lineage]:
    """Every lineage that the name ever pointed to, oldest first; each once."""
    found: dict[str, Lineage] = {}
    for key in _keys(root, job):
        pointer = _read(root, key)
        found[pointer.lineage] = _lineage(root, pointer, created=False)
    return list(found.values())


def names(root: ObjectStore) -> list[JobName]:
    """The jobs that have a lineage in a checkpoint storage, by name."""
    folders = {info.key.rpartition("/")[0] for info in root.list(f"{FOLDER}/")}
    found = []
    for folder in sorted(folders):
        segments = [unquote(segment) for segment in folder.split("/")[1:]]
        if len(segments) == 3:  # anything else is somebody else's
            found.append(JobName(cluster=segments[0], namespace=segments[1], name=segments[2]))
    return found


def begin_anew(
    root: ObjectStore, old: Lineage, clock: Clock, ids: Callable[[], str] = naming.random_id
) -> None:
    """Let the name of ``old`` point to a lineage that nothing was written into, unless another has done so."""
    fresh = Pointer(
        number=old.pointer.number + 1,
        lineage=ids(),
        job=old.job,
        created_ms=clock.now_ms(),
        previous=old.id,
    )
    _create(root, fresh)


def _folder(job: JobName) -> str:
    return "/".join(
        [FOLDER, *(naming.quote_segment(part) for part in (job.cluster, job.namespace, job.name))]
    )


def _key(job: JobName, number: int) -> str:
    return f"{_folder(job)}/{number:012d}"


def _keys(root: ObjectStore, job: JobName) -> list[str]:
    return [info.key for info in root.list(_folder(job) + "/")]


def _newest_pointer(root: ObjectStore, job: JobName) -> Pointer | None:
    """The listing says where to begin, and asking for the number after it has the last word: a listing may come
    late or be cut, and with an older pointer a job would go on beside the state that it has been writing since.
    """
    keys = _keys(root, job)
    newest = _read(root, keys[-1]) if keys else None
    while True:
        try:
            newest = _read(root, _key(job, newest.number + 1 if newest else 1))
        except errors.NotFound:
            return newest


def _read(root: ObjectStore, key: str) -> Pointer:
    url = f"{root.url}/{key}"
    return framing.parse(_DECODER, framing.unframe(MAGIC, VERSION, root.get(key), url), url)


def _create(root: ObjectStore, fresh: Pointer) -> bool:
    """Whether the pointer is there and is ours; False if another one took its number first."""
    data = framing.frame(MAGIC, VERSION, _ENCODER.encode(fresh))
    return creating.create_or_read(root, _key(fresh.job, fresh.number), data) == data


def _lineage(root: ObjectStore, pointer: Pointer, *, created: bool) -> Lineage:
    store = PrefixedStore(root, pointer.lineage)
    return Lineage(id=pointer.lineage, job=pointer.job, store=store, created=created, pointer=pointer)
