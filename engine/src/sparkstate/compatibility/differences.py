"""Differences between a job and a snapshot that are about no single state: key space, slots, backend, sources, and
the premises and keys of operators. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

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


def of_sources(offsets: Sequence[str], formats: Sequence[str]) -> tuple[JobFinding, ...]:
    """Sources that the snapshot's position does not fit. Spark finds a source's offset by its place, which is the order
    of the calls of ``keyed`` and ``broadcast``.

    ``offsets`` are the stored ones; ``formats`` those of the sources that the job reads. Sources of one format that
    have changed places cannot be told apart.
    """
    if not offsets:
        return ()
    field = "sources"
    stored = [_format_of(offset) for offset in offsets]
    shown = ", ".join(known or "a source" for known in stored)
    found = JobFinding(field=field, stored=shown, declared=", ".join(formats), refused=True, message="")
    if len(offsets) != len(formats):
        message = (
            f"the stored position has {len(offsets)} sources ({shown}), and the job reads {len(formats)} "
            f"({', '.join(formats)}): Spark cannot go on with another number of sources; read the same ones, "
            "or begin with startEmpty: true"
        )
        return (replace(found, message=message),)
    wrong = [at for at, known in enumerate(stored) if known and (known == "file") != (formats[at] == "file")]
    if not wrong:
        return ()
    at = wrong[0]
    message = (
        f"source {at + 1} of the stored position is {stored[at]}, and the job reads {formats[at]} in its place; "
        "call keyed(…) and broadcast(…) for the sources in the earlier order"
    )
    return (replace(found, message=message),)


def of_readers(
    stored: Sequence[Sequence[str]], declared: Sequence[Sequence[str]], refusal: str
) -> tuple[JobFinding, ...]:
    """Sources that other operators read than those of the snapshot, or another number of them. ``refusal`` is what the
    start would say. By source the inputs that read it, ``uid/input``."""
    return (
        JobFinding(
            field="sources",
            stored=_listed(stored),
            declared=_listed(declared),
            refused=True,
            message=refusal,
        ),
    )


def _listed(readers: Sequence[Sequence[str]]) -> str:
    return ", ".join(" and ".join(source) or "no operator" for source in readers)


def of_premises(uid: str, field: str, before: str, now: str, refusal: str) -> JobFinding:
    """A premise of an operator's state, such as the size of its windows, that has changed. ``refusal``: as above."""
    return _of_operator("premises", uid, field, before, now, refusal)


def of_keys(uid: str, field: str, before: str, now: str, refusal: str) -> JobFinding:
    """Key columns of an operator that Spark hashes otherwise than before. ``refusal``: as above."""
    return _of_operator("keys", uid, field, before, now, refusal)


def _of_operator(about: str, uid: str, field: str, before: str, now: str, refusal: str) -> JobFinding:
    return JobFinding(
        field=about,
        stored=f"{uid}: {field} {before}",
        declared=f"{uid}: {field} {now}",
        refused=True,
        message=refusal,
    )


def notices(offsets: Sequence[str], formats: Sequence[str]) -> tuple[str, ...]:
    """Sentences about what a check cannot find out."""
    several = sorted({each for each in formats if formats.count(each) > 1})
    if not offsets or not several:
        return ()
    return (
        f"the job reads several sources of the format {several[0]}: whether keyed(…) and broadcast(…) are called for "
        "them in the earlier order cannot be seen, and each source goes on from the offset at its place",
    )


def key_notices(key_types: Collection[str]) -> tuple[str, ...]:
    """A sentence about a snapshot that does not say by which Spark types its keys were hashed, where a change of them
    could hide. ``key_types``: those of its states."""
    if not any(name in kind for kind in key_types for name in ("LONG", "DOUBLE", "BIG_DEC")):
        return ()
    return (
        "the snapshot is of an earlier sparkstate, which did not store the Spark types of key columns: whether a "
        "number had another type, as int in place of bigint, cannot be seen, and its keys would not find their state",
    )


def _format_of(offset: str) -> str:
    """The format of the source that wrote an offset, as far as it shows."""
    try:
        parsed = json.loads(offset)
    except ValueError:
        return ""
    if not isinstance(parsed, dict) or not parsed:
        return ""
    if "logOffset" in parsed:
        return "file"
    return "kafka" if all(isinstance(value, dict) for value in parsed.values()) else ""


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
            f"take a canonical savepoint while the job runs with {stored}, and restore from that"
        )
    else:
        message = f"the state moves from {stored} to {declared}"
    return (
        JobFinding(field=field, stored=stored, declared=declared, refused=bool(foreign), message=message),
    )
