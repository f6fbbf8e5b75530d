"""Staged files become visible: each of them once, whatever dies, answers late or not at all, or takes the file away.

A driver that dies, or an answer that is lost, leaves open whether a file has appeared. To look for the file tells
nothing, since its reader may have taken it: a copy that was tried again came twice. So a file appears by a ticket
(:meth:`ObjectStore.begin_move`), which is stored beside the staged file before it is used, and which the storage
honours once. The idea is that of Flink's ``S3RecoverableWriter``, which keeps the number of a multipart upload in the
checkpoint. Here no savepoint depends on one, because storages drop unfinished uploads after some days, and a savepoint
may be older. ``docs/rfcs/0025-a-file-appears-once.md`` has the cases.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from sparkstate import errors
from sparkstate.checkpoint.metadata import Committable
from sparkstate.storage import creating
from sparkstate.storage.objectstore import ObjectStore

_log = logging.getLogger("sparkstate.sinks")

_KEPT_MS = 12 * 3600 * 1000
"""A ticket younger than this that is not honoured was used: rules that drop unfinished uploads count in days."""
_TICKETS = 3
"""So many in one call, before the storage counts as one that keeps none."""


def publish(store: ObjectStore, staged: Committable, now_ms: int, *, restored: bool = False) -> bool:
    """Make a staged file visible under its final name. Idempotent; whether this call did it, as far as it knows.

    From then on the file is its readers': they may move, rename or delete it. So a note beside the staged file says
    that it was published, before that goes; :func:`forget` removes note and ticket. ``restored``: an earlier driver
    staged it, and may have begun to publish it as older versions did, without a ticket. ``now_ms`` is the wall time.
    Raises ``CorruptData`` if there is neither note nor ticket nor staged file, nor the final one.
    """
    shown = False
    if not _is_there(store, _note(staged)):
        known = restored and not _is_there(store, _ticket_name(staged)) and _is_final(store, staged)
        found = known or _show(store, staged, now_ms)
        if found is None:
            return False
        shown = found and not known
        with contextlib.suppress(errors.AlreadyExists):
            store.put_if_absent(_note(staged), b"published\n")
    store.delete([staged.staged])
    return shown


def forget(store: ObjectStore, published: Iterable[Committable]) -> None:
    """Remove the notes and tickets of :func:`publish`, once the log says that all is published."""
    store.delete([name(staged) for staged in published for name in (_note, _ticket_name)])


def _show(store: ObjectStore, staged: Committable, now_ms: int) -> bool | None:
    """Whether it appeared by this call; False: it had appeared before; None: so it had, and nothing needs a note."""
    for _ in range(_TICKETS):
        ticket = _ticket(store, staged)
        if ticket is None:
            return None
        try:
            if store.move(ticket, staged.staged, staged.final, staged.size):
                return True
        except errors.NotFound as error:
            store.drop_move(ticket, staged.final)
            store.delete([_ticket_name(staged)])
            _require_published(store, staged, error)
            return None
        if not _was_dropped(store, staged, now_ms):
            return False
        store.delete([_ticket_name(staged)])
    raise errors.StorageUnavailable(
        f"{store.url}/{staged.final}: the storage forgot {_TICKETS} unfinished uploads, each right after it was begun; "
        "it is tried again"
    )


def _ticket(store: ObjectStore, staged: Committable) -> str | None:
    """The one that counts, made if there is none; None: the file was published by somebody else."""
    with contextlib.suppress(errors.NotFound):
        return store.get(_ticket_name(staged)).decode()
    try:
        own = store.begin_move(staged.staged, staged.final)
    except errors.NotFound as error:
        _require_published(store, staged, error)
        return None
    counts = creating.create_or_read(store, _ticket_name(staged), own.encode()).decode()
    if counts != own:
        store.drop_move(own, staged.final)
    return counts


def _was_dropped(store: ObjectStore, staged: Committable, now_ms: int) -> bool:
    """Whether a ticket that is not honoured may never have been used: then twice is better than never."""
    if _is_there(store, _note(staged)) or _is_final(store, staged):
        return False
    try:
        made_ms = store.head(_ticket_name(staged)).modified_ms
    except errors.NotFound:
        return False  # its publication is over and forgotten
    old = now_ms - made_ms > _KEPT_MS and _size(store, staged.staged) is not None
    _log.warning(
        "%s/%s is not there, and the step by which it was to appear cannot be taken any more. %s",
        store.url,
        staged.final,
        "It is published anew; if a reader has taken it before, it comes twice"
        if old
        else "So it has appeared, and a reader has taken it; unless somebody has aborted its upload, or deleted what "
        f"was staged as {staged.staged}",
    )
    return old


def _require_published(store: ObjectStore, staged: Committable, error: errors.NotFound) -> None:
    """The staged file is not there. Older versions left no note, and took it away only when it was published: theirs
    are told by the missing URL. Or a thread of an older incarnation has published it since."""
    if staged.url and not _is_there(store, _note(staged)) and not _is_final(store, staged):
        raise errors.CorruptData(
            f"{store.url}/{staged.staged} is named by a committed checkpoint and is missing, and so is "
            f"{staged.final}, which was never published; the records of that file are lost: restore an older "
            "savepoint into a new folder"
        ) from error


def _note(staged: Committable) -> str:
    return f"{staged.staged}.published"


def _ticket_name(staged: Committable) -> str:
    return f"{staged.staged}.ticket"


def _is_final(store: ObjectStore, staged: Committable) -> bool:
    return _size(store, staged.final) == staged.size


def _is_there(store: ObjectStore, key: str) -> bool:
    """By reading it, as it is small: S3 answers a HEAD without a body, and would have to be asked for its reason."""
    try:
        store.get(key)
    except errors.NotFound:
        return False
    return True


def _size(store: ObjectStore, key: str) -> int | None:
    try:
        return store.head(key).size
    except errors.NotFound:
        return None
