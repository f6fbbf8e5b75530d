"""Differences between a job and a snapshot that are about no single state: key space, slots, backend. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.compatibility.report import JobFinding
from sparkstate.keygroups import KeySpace


def of_key_space(
    stored: KeySpace, max_parallelism: int | None, shards: int | None, slots: int
) -> tuple[JobFinding, ...]:
    """The fields of the spec that contradict the stored key space, which was fixed when the job was created.
    ``max_parallelism`` and ``shards`` are None where the spec leaves them out."""
    return tuple(_of_key_space(stored, max_parallelism, shards, slots))


def _of_key_space(
    stored: KeySpace, max_parallelism: int | None, shards: int | None, slots: int
) -> Iterator[JobFinding]:
    fixed = (
        ("spec.maxParallelism", stored.max_parallelism, max_parallelism),
        ("spec.shards", stored.shards, shards),
    )
    for field, before, now in fixed:
        if now not in (None, before):
            message = (
                f"{field} is {now}; the stored state has {before}, which cannot change: leave the field out"
            )
            yield JobFinding(
                field=field, stored=str(before), declared=str(now), refused=True, message=message
            )
    try:
        stored.shards_of_slot(0, slots)
    except errors.SpecInvalid as error:
        yield JobFinding(
            field="spec.slots",
            stored=f"{stored.shards} shards",
            declared=str(slots),
            refused=True,
            message=f"spec.{error}",
        )


def of_slots(stored: int, declared: int) -> tuple[JobFinding, ...]:
    """A rescale."""
    if stored == declared:
        return ()
    message = f"the state moves from {stored} slots to {declared}; whole shards move, and no row is rewritten"
    return (
        JobFinding(
            field="spec.slots", stored=str(stored), declared=str(declared), refused=False, message=message
        ),
    )


def of_backend(formats: Collection[str], stored: str, declared: str) -> tuple[JobFinding, ...]:
    """Another state backend. Files in a backend's own format serve that backend alone."""
    if stored == declared:
        return ()
    field = "spec.stateBackend.type"
    foreign = sorted(set(formats) - {canonical.FORMAT, declared})
    if foreign:
        message = (
            f"{field} is {declared}, and the snapshot has files in the format of {foreign[0]} alone; "
            f"take a savepoint while the job runs with {stored}, and restore from that"
        )
    else:
        message = f"the state moves from {stored} to {declared}"
    return (
        JobFinding(field=field, stored=stored, declared=declared, refused=bool(foreign), message=message),
    )
