"""From what does a new incarnation start? The decision is pure; carrying it out reads ``_metadata`` and nothing else.

The first of ``RULES`` that applies decides. ``startEmpty`` has been carried out before (``log.open_lineage``): it makes
a new lineage, in which none applies, and the state begins empty.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sparkstate import errors
from sparkstate.checkpoint import store as completed
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.checkpoint.savepoint import OpenStore, open_snapshot
from sparkstate.log.lineage import Lineage
from sparkstate.log.records import CheckpointCommitted, SavepointCommitted
from sparkstate.log.state import LogState
from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectStore

LATEST = "latest"


@dataclass(frozen=True)
class RestorePlan:
    """``message`` says to a person what was found, or what was looked for. ``record`` is set if the log names it."""

    kind: Literal["empty", "checkpoint", "savepoint", "blocked"]
    message: str
    url: str = ""
    record: CheckpointCommitted | SavepointCommitted | None = None


@dataclass(frozen=True)
class RestoredSnapshot:
    """A plan with what it needs. ``store`` is where the paths of ``metadata``'s handles begin; both None if empty."""

    plan: RestorePlan
    metadata: CheckpointMetadata | None = None
    store: ObjectStore | None = None
    same_lineage: bool = False
    """Whether the committables of ``metadata`` are ours to publish."""


@dataclass(frozen=True)
class _RestoreRequest:
    state: LogState
    lineage_url: str
    restore_from: str | None
    start_empty: bool


def decide_restore(
    state: LogState, lineage_url: str, restore_from: str | None, start_empty: bool
) -> RestorePlan:
    """The first of ``RULES`` that applies; the state begins empty where none does."""
    request = _RestoreRequest(state, lineage_url, restore_from, start_empty)
    plans = (rule(request) for rule in RULES)
    return next((plan for plan in plans if plan is not None), _empty(request))


def require_newest(plan: RestorePlan, state: LogState) -> None:
    """That ``plan`` is still right after ``state``: a thread of the incarnation before may have committed since it was
    decided, and an incarnation without that checkpoint would repeat epochs whose output is visible.

    Raises ``StorageUnavailable``, because another try finds the newer snapshot.
    """
    if (state.restore_point, state.restore_point_deleted) == (plan.record, False):
        return
    raise errors.StorageUnavailable(
        f"the log has changed since this was decided: {plan.message}; the incarnation before has completed a snapshot "
        "since, or the snapshot was deleted, so the restore begins anew"
    )


def _contradictory(request: _RestoreRequest) -> RestorePlan | None:
    """Before all others, whatever the log says: a person has to decide which of the two is meant."""
    if not (request.start_empty and request.restore_from):
        return None
    return RestorePlan(
        "blocked",
        f"startEmpty is true and restoreFrom is {request.restore_from!r}: leave one of the two out",
    )


def _completed(request: _RestoreRequest) -> RestorePlan | None:
    """Nothing else will do where the lineage has completed a snapshot, because its sinks have published up to it. So
    ``restoreFrom`` comes after it, and a snapshot that was deleted blocks the restore."""
    state, point = request.state, request.state.restore_point
    if point is None:
        return None
    kind, url, found = _described(state, point, request.lineage_url)
    if state.restore_point_deleted:
        return RestorePlan(
            "blocked",
            f"the newest completed snapshot was {found}, and it has been deleted; set startEmpty: true to "
            "begin anew",
            url,
            point,
        )
    unused = request.restore_from if request.restore_from != LATEST else None
    ignored = f"; restoreFrom ({unused}) is not needed" if unused else ""
    return RestorePlan(kind, f"restoring {found}{ignored}", url, point)


def _described(
    state: LogState, point: CheckpointCommitted | SavepointCommitted, lineage_url: str
) -> tuple[Literal["checkpoint", "savepoint"], str, str]:
    """Kind, URL and a description for a person."""
    if isinstance(point, CheckpointCommitted):
        url = naming.split_url(naming.join_url(lineage_url, point.path))[0]
        return "checkpoint", url, f"checkpoint {point.checkpoint_id} (epoch {point.epoch}) at {url}"
    closed = "closed the lineage" if state.closed else "is newer than every checkpoint"
    return "savepoint", point.url, f"the savepoint {point.url} (epoch {point.epoch}), which {closed}"


def _named(request: _RestoreRequest) -> RestorePlan | None:
    """``restoreFrom`` names a folder. It comes before the folder of the last incarnation: a person asks for it now."""
    if not request.restore_from or request.restore_from == LATEST:
        return None
    url = naming.normalise_url(request.restore_from)
    return RestorePlan("savepoint", f"the lineage has completed nothing yet; restoring from {url}", url)


def _again(request: _RestoreRequest) -> RestorePlan | None:
    """The incarnation before was restored from a folder, and has completed nothing since. It comes before ``latest``,
    which blocks only where there is nothing."""
    state = request.state
    if not state.restored_from:
        return None
    return RestorePlan(
        "savepoint",
        f"incarnation {state.incarnation} was restored from {state.restored_from} and has completed "
        "nothing "
        "since; restoring from it again",
        state.restored_from,
    )


def _nothing_latest(request: _RestoreRequest) -> RestorePlan | None:
    """``restoreFrom: latest``, and there is nothing: each of the rules before has found something."""
    if request.restore_from != LATEST:
        return None
    return RestorePlan(
        "blocked",
        f"restoreFrom is 'latest', but the log of {request.lineage_url} ({request.state.last_number} entries) names no "
        "completed "
        "checkpoint or savepoint; leave restoreFrom out to start empty, or name a folder",
    )


def _empty(request: _RestoreRequest) -> RestorePlan:
    return RestorePlan("empty", f"{request.lineage_url} has completed nothing yet; the state begins empty")


RULES: Sequence[Callable[[_RestoreRequest], RestorePlan | None]] = (
    _contradictory,
    _completed,
    _named,
    _again,
    _nothing_latest,
)
"""In order of precedence."""


def carry_out(plan: RestorePlan, lineage: Lineage, opened: OpenStore) -> RestoredSnapshot:
    """Read and verify what the plan names.

    Raises ``RestoreBlocked`` for a blocked plan and for anything missing or damaged; ``StorageUnavailable``
    passes, since waiting is right.
    """
    if plan.kind == "blocked":
        raise errors.RestoreBlocked(plan.message)
    if plan.kind == "empty":
        return RestoredSnapshot(plan)
    with blocked_by_damage(plan):
        if isinstance(plan.record, CheckpointCommitted):
            metadata = completed.load_metadata(lineage.store, plan.record.path, plan.record.checksum)
            return RestoredSnapshot(plan, metadata, lineage.store, same_lineage=True)
        snapshot = open_snapshot(plan.url, opened)
    return RestoredSnapshot(
        plan, snapshot.metadata, snapshot.store, same_lineage=snapshot.metadata.lineage == lineage.id
    )


@contextlib.contextmanager
def blocked_by_damage(plan: RestorePlan) -> Iterator[None]:
    """Whatever of ``plan``'s files is missing, damaged or of an unknown format inside raises ``RestoreBlocked``.

    Trying again cannot help, and what to do instead is for a person to say. ``StorageUnavailable`` passes.
    """
    try:
        yield
    except errors.UnknownFormat as error:
        raise errors.RestoreBlocked(
            f"cannot restore: {plan.message}, but {error}. Starting empty (startEmpty: true) would lose the state"
        ) from error
    except (errors.CorruptData, errors.NotFound) as error:
        raise errors.RestoreBlocked(
            f"cannot restore: {plan.message}, but {error}. Starting empty would lose the state: put the "
            "files back, or say "
            "startEmpty: true"
        ) from error
