"""Makes conditions from facts, and keeps their transition times.

``Reconciling`` and ``Stalled`` are as kstatus reads them
(https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md): both exist only while they are true.
So does ``MemoryPressure``, which bears the name of a node's condition, and warns: everything still runs as asked.
``Ready`` is true whenever the object is as its spec asks, so for a suspended job too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sparkstate_operator.core import phases, shortening
from sparkstate_operator.model.snapshot import SnapshotPhase
from sparkstate_operator.model.status import Condition, JobPhase

MEMORY_PRESSURE = "MemoryPressure"
LONGEST_MESSAGE = 32768
"""Of a message in the CRDs. The API server refuses the whole status for a longer one."""
WORDS = {True: "True", False: "False"}


@dataclass(frozen=True)
class Trouble:
    """A thing that is wrong, as a stable word and a sentence."""

    reason: str
    message: str


@dataclass(frozen=True)
class Facts:
    """The facts from which a job's conditions follow.

    ``invalid``: the newest spec cannot run; an older revision may. ``degraded``: the job runs, and something that was
    asked for does not (checkpoints fail, a savepoint failed, storage is away). ``failure``: the newest failure, shown
    while the phase is one of failing. ``pressure``: memory of the running job is nearly used up. ``late``: the job has
    not been ready for longer than its progress deadline. ``begins_anew``: the job sets out for a new spec at this look.
    """

    phase: JobPhase
    generation: int
    message: str = ""
    invalid: Trouble | None = None
    degraded: Trouble | None = None
    failure: Trouble | None = None
    pressure: Trouble | None = None
    late: Trouble | None = None
    begins_anew: bool = False


@dataclass(frozen=True)
class _DesiredCondition:
    type: str
    status: bool
    reason: str
    message: str


def of_job(facts: Facts, old: Sequence[Condition] | None, now: datetime) -> tuple[Condition, ...]:
    """All conditions of a job; those whose status is as in ``old`` keep their transition time. ``Progressing`` begins
    with each spec that the job sets out for: its progress deadline is counted from there."""
    kept = [one for one in old or () if one.type != "Progressing" or not facts.begins_anew]
    return _kept(_job(facts), facts.generation, kept, now)


def of_snapshot(
    phase: SnapshotPhase,
    generation: int,
    old: Sequence[Condition] | None,
    now: datetime,
    message: str = "",
    reason: str = "",
) -> tuple[Condition, ...]:
    """``Ready`` of a snapshot, and ``Reconciling`` or ``Stalled`` while they hold."""
    meaning = phases.SNAPSHOT[phase]
    wanted = [_DesiredCondition("Ready", meaning.as_wanted, reason or phase, message)]
    wanted += _kstatus(meaning, reason or phase, message)
    return _kept(wanted, generation, old, now)


def _job(facts: Facts) -> Iterator[_DesiredCondition]:
    meaning = phases.JOB[facts.phase]
    told = facts.failure.message if facts.failure and not meaning.as_wanted else facts.message
    if facts.invalid:
        yield _DesiredCondition("Ready", False, facts.invalid.reason, facts.invalid.message)
    else:
        yield _DesiredCondition("Ready", meaning.as_wanted, facts.phase, told)
    if facts.late:
        meaning = phases.Meaning(stuck=True)
        yield _DesiredCondition("Progressing", False, facts.late.reason, facts.late.message)
    else:
        yield _DesiredCondition(
            "Progressing", meaning.progressing, facts.phase, told if meaning.progressing else ""
        )
    yield _degraded(facts)
    blocked = facts.phase == "RestoreBlocked"
    yield _DesiredCondition("RestoreBlocked", blocked, facts.phase, told if blocked else "")
    if facts.pressure:
        yield _DesiredCondition(MEMORY_PRESSURE, True, facts.pressure.reason, facts.pressure.message)
    if facts.invalid and not meaning.progressing:
        stalled = phases.Meaning(stuck=True)
        yield from _kstatus(stalled, facts.invalid.reason, facts.invalid.message)
    else:
        trouble = facts.late or (facts.failure if meaning.stuck else None)
        yield from _kstatus(
            meaning,
            trouble.reason if trouble else facts.phase,
            facts.late.message if facts.late else told,
        )


def _degraded(facts: Facts) -> _DesiredCondition:
    failing = facts.failure if facts.phase in ("Failing", "Failed") else None
    trouble = facts.degraded or facts.invalid or facts.late or failing
    if trouble is None:
        return _DesiredCondition("Degraded", False, "AsWanted", "")
    return _DesiredCondition("Degraded", True, trouble.reason, trouble.message)


def _kstatus(meaning: phases.Meaning, reason: str, message: str) -> Iterable[_DesiredCondition]:
    if meaning.progressing:
        yield _DesiredCondition("Reconciling", True, reason, message)
    if meaning.stuck:
        yield _DesiredCondition("Stalled", True, reason, message)


def _kept(
    wanted: Iterable[_DesiredCondition], generation: int, old: Sequence[Condition] | None, now: datetime
) -> tuple[Condition, ...]:
    before = {condition.type: condition for condition in old or ()}
    return tuple(_condition(each, generation, before.get(each.type), now) for each in wanted)


def _condition(
    wanted: _DesiredCondition, generation: int, before: Condition | None, now: datetime
) -> Condition:
    status = WORDS[wanted.status]
    same = before is not None and before.status == status
    return Condition.model_validate(
        {
            "type": wanted.type,
            "status": status,
            "reason": wanted.reason,
            "message": shortening.shortened(wanted.message, LONGEST_MESSAGE),
            "lastTransitionTime": before.last_transition_time if same and before else now,
            "observedGeneration": generation,
        }
    )
