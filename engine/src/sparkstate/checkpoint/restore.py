"""From what does a new incarnation start? The decision is pure; carrying it out reads ``_metadata`` and nothing else.

The rules, in order; the first that applies decides:

1. The lineage has completed a checkpoint or savepoint: restore the newest of them. Nothing else will do, because its
   sinks have published up to it. If it was deleted, or cannot be read, the restore is blocked.
2. ``restoreFrom`` names a folder: restore from it.
3. The incarnation before was restored from a folder, and has completed nothing since: restore from that again.
4. ``restoreFrom: latest``, and there is nothing: blocked.
5. Otherwise the state begins empty.

``startEmpty`` has been carried out before (``log.open_lineage``): it makes a new lineage, in which rule 5 applies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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


def decide_restore(
    state: LogState, lineage_url: str, restore_from: str | None, start_empty: bool
) -> RestorePlan:
    """The rules of the module's head."""
    if start_empty and restore_from:
        return RestorePlan(
            "blocked", f"startEmpty is true and restoreFrom is {restore_from!r}: leave one of the two out"
        )
    point = state.restore_point
    if point is not None:
        return _own(state, point, lineage_url, restore_from)
    if restore_from and restore_from != LATEST:
        url = naming.normalise_url(restore_from)
        return RestorePlan("savepoint", f"the lineage has completed nothing yet; restoring from {url}", url)
    if state.restored_from:
        return RestorePlan(
            "savepoint",
            f"incarnation {state.incarnation} was restored from {state.restored_from} and has completed "
            "nothing "
            "since; restoring from it again",
            state.restored_from,
        )
    if restore_from == LATEST:
        return RestorePlan(
            "blocked",
            f"restoreFrom is 'latest', but the log of {lineage_url} ({state.last_number} entries) names no "
            "completed "
            "checkpoint or savepoint; leave restoreFrom out to start empty, or name a folder",
        )
    return RestorePlan("empty", f"{lineage_url} has completed nothing yet; the state begins empty")


def _own(
    state: LogState,
    point: CheckpointCommitted | SavepointCommitted,
    lineage_url: str,
    restore_from: str | None,
) -> RestorePlan:
    ignored = (
        f"; restoreFrom ({restore_from}) is not needed" if restore_from and restore_from != LATEST else ""
    )
    if isinstance(point, CheckpointCommitted):
        url = naming.split_url(naming.join_url(lineage_url, point.path))[0]
        found = f"checkpoint {point.checkpoint_id} (epoch {point.epoch}) at {url}"
    else:
        url = point.url
        closed = "closed the lineage" if state.closed else "is newer than every checkpoint"
        found = f"the savepoint {url} (epoch {point.epoch}), which {closed}"
    if state.restore_point_deleted:
        return RestorePlan(
            "blocked",
            f"the newest completed snapshot was {found}, and it has been deleted; set startEmpty: true to "
            "begin anew",
            url,
            point,
        )
    kind: Literal["checkpoint", "savepoint"] = (
        "checkpoint" if isinstance(point, CheckpointCommitted) else "savepoint"
    )
    return RestorePlan(kind, f"restoring {found}{ignored}", url, point)


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
