"""Before an upgrade stops a running attempt, the new version is asked whether it takes up the job's state (RFC 0044).

``sparkstate check`` runs as a Job, in the new version's own pod. Its intent names the revision; the attempt runs on
meanwhile, and for as long as the answer is no. A check that cannot be made at all (the image is older than the
command, no node has room for one more pod, the API server refuses the Job) keeps nobody from upgrading. Where an
earlier check of the same version has refused the state, it stays refused.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from sparkstate_operator import actions, answers, clock, observed
from sparkstate_operator.core import job_life, naming, remedies, shortening
from sparkstate_operator.decide import commanding, precedence, refusing, troubles
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.model.base import ChangeKind
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in

POLL_S = 5.0
"""The operator looks this often at a check that runs."""
LIMIT_S = 3600
"""Kubernetes stops a check after this time, if no operator is there to end it before."""
BEGIN_S = 600.0
"""A check whose pod has not begun for this long is given up; it may wait for a volume that the old driver holds."""
SLOW_S = 540.0
"""A check that runs, and has not answered after this time, refuses the upgrade: the new driver would hang as well. In
this time Spark has to start, and the job's code to declare itself."""
ROOM_S = 120.0
"""A check that no node takes for this long is given up, and so is one whose Job is refused: a quota may get room."""
PULL_S = 60.0
"""A container that cannot be made for this long refuses the upgrade: the new driver's could not be made either."""
REFUSED_S, LONGEST_REFUSED_S = 600.0, 3600.0
"""State that does not fit is checked again after these pauses, because an image may have come anew under its name."""
SPEC_BYTES = 128 * 1024
"""A larger spec is not checked: it travels in an annotation, indented, and all annotations of a pod share 256 KiB."""
REFUSAL_LENGTH = 600
"""Characters of a refusal that are told. An Event has room for 1,024, and the remedy comes last."""
_WITHOUT = "spec.upgradeCheck: false upgrades without the check"
NOT_KNOWN = "No such command"
"""The command line's words for a command of a later version."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question: would ``wanted`` take up the state that it starts from?"""

    wanted: Revision
    start: actions.Start
    strongest: ChangeKind | None
    """Of the changes; None where nobody knows them."""
    begins_empty: bool


class Verdict(enum.Enum):
    """The next thing to do about a check."""

    BEGINS = "begins"
    """Its intent is written down."""
    ASKS = "asks"
    """Its Job is made."""
    RUNS = "runs"
    FITS = "fits"
    """The new version takes the state up, or there is nothing to lose."""
    UNKNOWN = "unknown"
    """The check cannot be made. The upgrade goes on, and an Event says so."""
    FAILED = "failed"
    """The new version could not be checked: the old one runs on."""
    REFUSED = "refused"
    """It does not take the state up: the old one runs on."""
    STILL_REFUSED = "still refused"
    """The check cannot be made, and the last one that judged the state refused it: the old one runs on."""
    INTERRUPTED = "interrupted"
    """The old one's pod is taken away before there is an answer: an attempt of the old version follows at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict, and for people why."""

    verdict: Verdict
    why: str = ""


def answer(draft: Draft, check: Check) -> Answer:
    """The present answer. Changes nothing."""
    if not is_needed(draft, check):
        return Answer(Verdict.FITS)
    command = draft.seen.command(command_name(draft))
    found = precedence.first(ANSWERS, draft, check, command) or Answer(Verdict.RUNS)
    verdict = refusing.verdict(draft, check.wanted)
    if found.verdict is not Verdict.UNKNOWN or not verdict:
        return found
    told = f"{verdict}; another check could not be made: {found.why}"
    return Answer(Verdict.STILL_REFUSED, told if _WITHOUT in told else f"{told}; {_WITHOUT}")


def is_needed(draft: Draft, check: Check) -> bool:
    """Whether a running attempt may be lost to a version that does not take up its state."""
    if check.wanted.get("upgradeCheck") is False or check.begins_empty or check.start.empty:
        return False
    if check.strongest in (ChangeKind.IGNORE, ChangeKind.SCALE):
        return False
    # A driver that goes back to its checkpoint while the question is open is still an attempt to keep.
    ran = draft.phase == "Running" or (draft.phase in job_life.ATTEMPT and _has_begun(draft, check))
    runs = ran and draft.pod is not None and draft.pod.death is Death.ALIVE
    stored = draft.status.get("lastCheckpoint") or draft.status.get("lastSavepoint")
    return runs and bool(check.start.uri or stored)


def command_name(draft: Draft) -> str:
    """Each check has a Job of its own name, so that nobody takes the answer of an earlier one for it."""
    job, intent = draft.seen.job, draft.intent
    told = f"{intent.get('revision')}/{intent.get('since')}"
    return naming.command_job(job.name, job.uid, job_life.CHECK, int(naming.digest(told, 6), 16))


# -- what the command has come to, in this order -----------------------------------------------------------------------


def _is_too_large(_: Draft, check: Check, _command: observed.Command | None) -> Answer | None:
    """First: the pod of such a check could never be made."""
    size = len(json.dumps(check.wanted.resolved.spec, default=dict))
    if size <= SPEC_BYTES:
        return None
    return Answer(Verdict.UNKNOWN, f"the spec has {size} bytes; only specs of up to {SPEC_BYTES} are checked")


def _is_interrupted(draft: Draft, check: Check, command: observed.Command | None) -> Answer | None:
    """Before every rule that waits: a drained pod has its whole grace period left, and one on a lost node is there
    until somebody removes it. An answer that has come meanwhile counts."""
    pod = draft.pod
    if pod is None or pod.deleting_at is None:
        return None
    if _has_begun(draft, check) and _has_answered(draft, check, command) is not None:
        return None
    return Answer(
        Verdict.INTERRUPTED, "the driver's pod was taken away before the new version had been checked"
    )


def _is_not_begun(draft: Draft, check: Check, _: observed.Command | None) -> Answer | None:
    """Every later rule is about this check's own command."""
    return None if _has_begun(draft, check) else Answer(Verdict.BEGINS)


def _has_begun(draft: Draft, check: Check) -> bool:
    intent = draft.intent
    return intent.get("action") == job_life.CHECK and intent.get("revision") == check.wanted.name


def _is_refused(draft: Draft, _: Check, command: observed.Command | None) -> Answer | None:
    """Before the question is put again. A quota may be full for a moment, as nodes may be, and the Job of an earlier
    check may still count: so it is put again and again until then. A webhook that fails has refused nothing, and may be
    mended: the old version runs on, and a condition says what it waits for. Only an Event said so, while each look
    ended with that error."""
    refusal = draft.seen.unasked
    if command is not None or refusal is None or refusal.name != command_name(draft):
        return None
    if draft.since() <= ROOM_S:
        return None
    told = f"its Job cannot be made: {shortening.shortened(refusal.message, REFUSAL_LENGTH)}"
    if refusal.judged:
        remedy = "a check needs quotas and policies that let the Job in"
        return Answer(Verdict.UNKNOWN, f"{told}; {remedy}; {_WITHOUT}")
    known = remedies.remedy(refusal.message)
    return Answer(
        Verdict.FAILED,
        "; ".join(filter(None, (f"the new version could not be checked: {told}", known, _WITHOUT))),
    )


def _is_not_asked(_: Draft, _check: Check, command: observed.Command | None) -> Answer | None:
    """Every later rule is about the command."""
    return Answer(Verdict.ASKS) if command is None else None


def _has_answered(_: Draft, _check: Check, command: observed.Command | None) -> Answer | None:
    """Before the failures: a command that refuses the state has failed by its exit code."""
    if command is None or not answers.fits(command.result, answers.CHECK):
        return None
    result = command.result
    if result.get("ok") is not True or result.get("compatible") is None:
        return None
    if result["compatible"]:
        return Answer(Verdict.FITS)
    where = result.get("url") or "the job"
    return Answer(
        Verdict.REFUSED, f"the new version does not take up the state of {where}: {result.get('message')}"
    )


def _waited_s(draft: Draft, command: observed.Command | None) -> float:
    """Seconds since the question was put, or since its Job was made, if that came later. The operator may have been
    away until Kubernetes had removed a Job that had ended. By the time of the question, the next Job had had no pod for
    an hour, and the upgrade went on unchecked. A time by a clock that is ahead counts for nothing."""
    made = command.made_at if command is not None else None
    if made is None or clock.is_ahead(made, draft.now):
        return draft.since()
    return min(draft.since(), (draft.now - made).total_seconds())


def _is_not_known(_: Draft, _check: Check, command: observed.Command | None) -> Answer | None:
    """Before other failures: an image that is older than the check would never pass it."""
    if command is None or not command.failed or NOT_KNOWN not in str(command.result.get("message")):
        return None
    return Answer(Verdict.UNKNOWN, "the new image has no command `sparkstate check`")


def _is_slow(draft: Draft, _: Check, command: observed.Command | None) -> Answer | None:
    """Of a check that runs. One that Kubernetes has cut off meanwhile has failed: nobody can tell whether it hung."""
    pod = command.pod if command is not None else None
    if pod is None or pod.phase != "Running" or _waited_s(draft, command) <= SLOW_S:
        return None
    why = f"the new version has not declared itself within {SLOW_S:.0f} s"
    return Answer(Verdict.FAILED, f"{why}; {_WITHOUT}")


def _has_no_room(draft: Draft, _: Check, command: observed.Command | None) -> Answer | None:
    """Of a check that runs: where no room is left beside the old driver, the upgrade would never be made."""
    if command is None or command.failed or command.succeeded or _waited_s(draft, command) <= ROOM_S:
        return None
    if command.pod is None:
        if command.had_pod:
            return None
        why = f": {command.refusal}" if command.refusal else ""
        return Answer(Verdict.UNKNOWN, f"the Job {command.name} has no pod after {ROOM_S:.0f} s{why}")
    if not command.pod.unschedulable:
        return None
    return Answer(Verdict.UNKNOWN, f"its pod has no room beside the driver's: {command.pod.unschedulable}")


def _cannot_start(draft: Draft, _: Check, command: observed.Command | None) -> Answer | None:
    """Of a check that runs: the new driver's container could not be made either."""
    pod = command.pod if command is not None else None
    found = troubles.of_command(pod) if pod is not None and not pod.unschedulable else None
    if found is None or _waited_s(draft, command) <= PULL_S:
        return None
    return Answer(Verdict.FAILED, f"the container of the new version cannot start: {found[1]}")


def _has_not_begun(draft: Draft, _: Check, command: observed.Command | None) -> Answer | None:
    """After the causes that its pod tells: it waits, and nobody knows for what."""
    pod = command.pod if command is not None else None
    if pod is None or pod.phase != "Pending" or _waited_s(draft, command) <= BEGIN_S:
        return None
    return Answer(Verdict.UNKNOWN, f"its pod had not begun after {BEGIN_S:.0f} s")


def _has_failed(_: Draft, _check: Check, command: observed.Command | None) -> Answer | None:
    """Last: the job's code or its storage kept the check from an answer, and would keep the new driver from a start."""
    if command is None or not (command.failed or command.succeeded):
        return None
    cut_off_s = command.cut_off_s
    told = f"it had not ended after {cut_off_s} s" if cut_off_s is not None else commanding.why(command)
    why = f"the new version could not be checked against the stored state: {told}"
    return Answer(Verdict.FAILED, f"{why}; {_WITHOUT}")


ANSWERS = (
    _is_too_large,
    _is_interrupted,
    _is_not_begun,
    _is_refused,
    _is_not_asked,
    _has_answered,
    _is_not_known,
    _is_slow,
    _has_no_room,
    _cannot_start,
    _has_not_begun,
    _has_failed,
)
"""None of them: the check runs."""


# -- the steps ---------------------------------------------------------------------------------------------------------


def go_on(draft: Draft, check: Check, found: Answer) -> None:
    """The step that follows from an answer with which the old version runs on for now."""
    match found.verdict:
        case Verdict.BEGINS:
            _begin(draft, check)
        case Verdict.ASKS:
            _ask(draft, check)
        case Verdict.FAILED:
            _refuse(draft, check, found, refusing.RETRY_S, refusing.LONGEST_RETRY_S)
        case Verdict.REFUSED:
            _refuse(draft, check, found, REFUSED_S, LONGEST_REFUSED_S)
            refusing.keep_verdict(draft, found.why)
        case Verdict.STILL_REFUSED:
            _refuse(draft, check, found, REFUSED_S, LONGEST_REFUSED_S)
        case Verdict.INTERRUPTED:
            _refuse(draft, check, found, refusing.RETRY_S, refusing.LONGEST_RETRY_S)
            draft.wait(0.0)  # the next look replaces the driver
        case _:
            draft.wait(POLL_S)


def end(draft: Draft) -> None:
    """The check is over, or given up: its Job goes."""
    if draft.intent.get("action") == job_life.CHECK:
        draft.end_act()
    draft.acts.extend(
        actions.DeleteCommand(command) for command in draft.seen.commands if command.does == job_life.CHECK
    )


def _begin(draft: Draft, check: Check) -> None:
    """The dry run comes first: a pod that the API server refuses needs no check."""
    end(draft)
    draft.check = actions.StartAttempt(draft.attempt + 1, check.wanted.name, check.start)
    draft.begin(job_life.CHECK, attempt=draft.attempt, revision=check.wanted.name)


def _ask(draft: Draft, check: Check) -> None:
    mode = draft.seen.job.spec.get("upgradeMode", built_in.value("upgradeMode"))
    arguments = ["--by-savepoint"] if mode == "savepoint" else []
    if check.start.fresh and check.start.uri:
        arguments = [
            f"--from={check.start.uri}"
        ]  # that is restored, whatever the old version saves at its end
    name = command_name(draft)
    draft.acts.append(actions.CreateCheck(name, check.wanted.name, check.start, tuple(arguments), LIMIT_S))
    draft.wait(POLL_S)


def _refuse(draft: Draft, check: Check, found: Answer, first_s: float, longest_s: float) -> None:
    end(draft)
    why = f"{found.why}; the old version runs on"
    refusing.note(draft, check.wanted, why, first_s=first_s, longest_s=longest_s)
