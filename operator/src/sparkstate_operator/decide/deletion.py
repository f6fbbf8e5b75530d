"""Deletion of a job: by its policy as long as that is possible, and always over by its deadline.

The finalizer holds the job. The job owns nothing that a last savepoint needs, so a foreground deletion cannot take the
driver away first. In a namespace that is being deleted nothing can be created,
and pods go by themselves: the policy is then ``retain``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sparkstate_operator import actions, clock, custom_resources, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import deadlines, job_life, naming
from sparkstate_operator.decide import (
    commanding,
    precedence,
    predecessors,
    progress,
    removing,
    snapshot_deletion,
    stopping,
)
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.draft import POLL_S, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision
from sparkstate_spec import built_in

Command = observed.Command
Step = Callable[[Draft, Config], None]
PurgeStep = Callable[[Draft, Revision], None]
MARGIN_S = 2.0
"""A savepoint is given up this long before the deadline. At the deadline ``_is_late`` comes before all other rules, and
nobody would be told that the savepoint failed."""
_UNTIL = "; the data is deleted as soon as that is over, and stays if the deletion's deadline comes before"


def go_on(draft: Draft, config: Config) -> None:
    """The next step of a deletion."""
    if labels.FINALIZER not in draft.seen.job.finalizers:
        return
    draft.happened(job_life.DELETED)
    step = precedence.first(STEPS, draft) or _end
    step(draft, config)


def overdue(seen: observed.ObservedState) -> bool:
    """Whether a deletion's deadline has passed, by the spec alone."""
    begun = seen.job.deleting_at
    limit = deadlines.of_deletion(custom_resources.told(seen.job.spec, "deletion.deadline"))
    return begun is not None and seen.now >= begun + limit


def by_force(seen: observed.ObservedState, config: Config, why: str) -> actions.Decision:
    """The end of a deletion whose deadline passed while no decision could be made.
    The job goes with its status as it is.

    Without this, a status or spec that a decision trips over would hold the object, and its namespace, for ever.
    """
    draft = Draft(seen, {}, None)
    told = f"the deletion's deadline passed, and no decision was possible ({why}): {removing.kept(draft)}"
    draft.note("DeletionDegraded", told, warning=True)
    removing.tell_name(draft, config)
    removing.remove_all(draft, purged=_leaves_no_snapshots(draft))
    return draft.decision(seen.job.status)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_not_begun(draft: Draft) -> Step | None:
    """The policy that counts is written down before anything is done by it: the spec may be changed meanwhile."""
    return _begin if draft.intent.get("action") != "delete" else None


def _is_late(draft: Draft) -> Step | None:
    """Before whatever is left to be done: what it waits for may never come, and the job's namespace waits as well."""
    return _give_up if draft.now >= _deadline(draft) else None


def _attempt_may_write(draft: Draft) -> Step | None:
    """Before the data is deleted: a driver that lives writes more. With ``savepoint`` it is given the time for that
    before its pod is deleted as all others are."""
    revision = _of_attempt(draft)
    return _stop if revision is not None and not stopping.is_over(draft, revision) else None


def _data_is_there(draft: Draft) -> Step | None:
    """While the job is there: the command belongs to it. In a namespace that is being deleted none can be made."""
    revision = _of_attempt(draft)
    if not _purges(draft) or draft.seen.namespace_terminating or revision is None:
        return None
    return None if _stage(draft, _command(draft)) is Stage.DONE else partial(_purge, revision=revision)


def _driver_may_live(draft: Draft) -> Step | None:
    """It knows no policy: of a driver whose revision nobody knows (its object is gone, and the spec is wrong) only the
    end can be asked for and waited for."""
    revision = draft.revision or draft.wanted
    alive = (pod for pod in draft.seen.drivers if pod.death is not Death.CONFIRMED)
    dangerous = any(
        pod.deleting_at is None or revision is None or draft.now < predecessors.harmless_at(pod, revision)
        for pod in alive
    )
    return _clear if dangerous else None


def _snapshots_are_there(draft: Draft) -> Step | None:
    """Last, because most of what they name has gone with the data. The job stays for it: once it is gone, nobody paces
    their deletions. Thousands of them, each with a Job, began in one look."""
    if not _purges(draft) or draft.seen.namespace_terminating:
        return None
    return _delete_snapshots if removing.too_many_snapshots(draft) else None


STEPS = (
    _is_not_begun,
    _is_late,
    _attempt_may_write,
    _data_is_there,
    _driver_may_live,
    _snapshots_are_there,
)
"""None of them: the policy is done, and the job goes."""


def _of_attempt(draft: Draft) -> Revision | None:
    """The revision by which the newest attempt is judged. None where there was no attempt, or its revision is not
    known: no policy can be carried out then."""
    return (draft.revision or draft.wanted) if draft.attempt else None


# -- the steps ---------------------------------------------------------------------------------------------------------


def _begin(draft: Draft, _: Config) -> None:
    policy = _told(draft, "policy")
    if draft.seen.namespace_terminating and policy != "retain":
        draft.note(
            "DeletionDegraded",
            f"the namespace is being deleted, so policy {policy} is not possible: {removing.kept(draft)}",
            warning=True,
        )
        policy = "retain"
    if policy == actions.PURGE and draft.attempt == 0 and not draft.seen.job.status.get("phase"):
        told = "the status was lost, and no attempt has left a trace: everything in storage stays there"
        draft.note("DeletionDegraded", told, warning=True)
    stopping.begin(draft, "delete", savepoint=policy == "savepoint")
    draft.status["intent"]["policy"] = policy


def _give_up(draft: Draft, config: Config) -> None:
    # The object goes with its conditions; of what hindered the purge, this Event is all that is left.
    command = _command(draft)
    why = commanding.hindrance(command) or _needed(draft) if _purges(draft) else ""
    is_purged = _purges(draft) and _stage(draft, command) is Stage.DONE
    rest = "the data is deleted, and the rest of the job goes at once" if is_purged else removing.kept(draft)
    told = f"the deletion's deadline passed{f' ({why})' if why else ''}: {rest}"
    draft.note("DeletionDegraded", told, warning=True)
    removing.tell_name(draft, config)
    removing.remove_all(draft, purged=_leaves_no_snapshots(draft))


def _stop(draft: Draft, _: Config) -> None:
    _end_attempt(draft)
    draft.wait_until(_deadline(draft))


def _purge(draft: Draft, _: Config, revision: Revision) -> None:
    """The engine deletes what the lineage has in storage."""
    _end_attempt(draft)
    command = _command(draft)
    if command is not None:  # between two tries there is none
        draft.status["intent"] = {**draft.intent, "purging": True}
    draft.degraded = commanding.trouble(command) or draft.degraded
    if str(draft.status.get("message") or "").endswith(_UNTIL):
        draft.say("")
    step = precedence.first(PURGED, draft, command) or _wait
    step(draft, revision)
    needed = step is _wait_for_job
    draft.wait(snapshot_deletion.LOOK_S if needed else commanding.look_s(command, _stage(draft, command)))
    draft.wait_until(_deadline(draft))


def _clear(draft: Draft, _: Config) -> None:
    """Every pod is asked to end."""
    _end_attempt(draft)
    removing.delete_pods(draft)
    draft.wait(POLL_S)
    draft.wait_until(_deadline(draft))


def _delete_snapshots(draft: Draft, _: Config) -> None:
    """Some at a time. The end of each deletion is an event."""
    _end_attempt(draft)
    draft.say("the job's StateSnapshots are deleted, some at a time")
    removing.delete_some_snapshots(draft)
    draft.wait(commanding.RUNS_S)
    draft.wait_until(_deadline(draft))


def _end(draft: Draft, config: Config) -> None:
    _end_attempt(draft)
    cut_off = _is_cut_off(draft)
    if cut_off:
        told = f"the namespace is being deleted, so the purge cannot be ended: {removing.kept(draft)}"
        draft.note("DeletionDegraded", told, warning=True)
    if cut_off or not _purges(draft):
        removing.tell_name(draft, config)
    removing.remove_all(draft, purged=_purges(draft))


def _is_cut_off(draft: Draft) -> bool:
    """Whether the deletion of the namespace came between the begin of a purge and its end. Without a word, somebody who
    asked for a purge would believe that the data has gone."""
    begun = _purges(draft) and _of_attempt(draft) is not None and draft.seen.namespace_terminating
    return bool(begun) and _stage(draft, _command(draft)) is not Stage.DONE


# -- the purge: which step, in this order ------------------------------------------------------------------------------


def _is_needed(draft: Draft, command: Command | None) -> PurgeStep | None:
    """Before the command is made: once it runs, a part of the data may be gone. At the deadline the data stays."""
    return _wait_for_job if command is None and draft.seen.needed_by else None


def _is_not_asked_for(_: Draft, command: Command | None) -> PurgeStep | None:
    """Every later rule is about the command."""
    return _ask if command is None else None


def _is_due(draft: Draft, command: Command | None) -> PurgeStep | None:
    """Before it is told that it failed, which was told when it did."""
    if command is None or _stage(draft, command) is not Stage.DUE:
        return None
    return partial(_ask_anew, command=command)


def _has_failed(draft: Draft, command: Command | None) -> PurgeStep | None:
    """Last. It is tried again after a pause: the obstacle between the engine and the data may pass."""
    if command is None or _stage(draft, command) is not Stage.PAUSES:
        return None
    return partial(_complain, command=command)


PURGED = (_is_needed, _is_not_asked_for, _is_due, _has_failed)
"""None of them: the command runs."""


def _ask(draft: Draft, revision: Revision) -> None:
    if draft.revision is None:
        # The revision of the attempt is lost, and the spec's stands in for it. The command is made by the revision that
        # the status names.
        draft.put("revision", revision.name)
    draft.acts.append(actions.EnsureChildren(revision.name))
    limit_s = commanding.limit_s((draft.now - _wanted_since(draft)).total_seconds())
    draft.acts.append(
        actions.CreateCommand(_command_name(draft), actions.PURGE, (actions.PURGE, "--json"), limit_s)
    )


def _wait_for_job(draft: Draft, _: Revision) -> None:
    told = f"{_needed(draft)}{_UNTIL}"
    if draft.seen.job.status.get("message") != told:
        draft.note("DataInUse", told, warning=True)
    draft.say(told)


def _ask_anew(draft: Draft, _: Revision, command: Command) -> None:
    draft.acts.append(actions.DeleteCommand(command))


def _complain(draft: Draft, _: Revision, command: Command) -> None:
    why = f"the data could not be deleted: {commanding.why(command)}; the operator tries again until the deadline"
    draft.say(why)
    draft.note("PurgeFailed", why, warning=True)


def _wait(draft: Draft, _revision: Revision) -> None:
    """Nothing is decided until the command has ended. It says how far it is."""
    draft.work = progress.of_command(_command(draft), draft.seen.job.status.get("progress"))


# -- what steps have in common -----------------------------------------------------------------------------------------


def _end_attempt(draft: Draft) -> None:
    """Bring the newest attempt's end nearer. In the steps after its end: take its last word,
    which may name a savepoint."""
    revision = _of_attempt(draft)
    if revision is not None:
        left_s = (_deadline(draft) - draft.now).total_seconds() - MARGIN_S
        stopping.go_on(draft, revision, max(0.0, draft.since() + left_s))


def _command_name(draft: Draft) -> str:
    return naming.command_job(draft.seen.job.name, draft.seen.job.uid, actions.PURGE)


def _command(draft: Draft) -> Command | None:
    return draft.seen.command(_command_name(draft))


def _stage(draft: Draft, command: Command | None) -> Stage:
    return commanding.stage(command, _wanted_since(draft), draft.now)


def _needed(draft: Draft) -> str:
    """Why nothing is purged; empty if no job needs the data."""
    return f"the job {draft.seen.needed_by} has to start from the data" if draft.seen.needed_by else ""


def _wanted_since(draft: Draft) -> datetime:
    return draft.seen.job.deleting_at or draft.now


def _purges(draft: Draft) -> bool:
    """Whether the policy that counts is the end of the data."""
    return bool(draft.intent.get("policy") == actions.PURGE)


def _leaves_no_snapshots(draft: Draft) -> bool:
    """Whether the job's StateSnapshots go with it before their time. They stay with the data if a job has to start from
    that: it may know the data by the name of one of them alone."""
    return _purges(draft) and not draft.seen.needed_by


def _told(draft: Draft, name: str) -> str:
    """A field of ``deletion``: the spec's value of now, otherwise that of the running revision."""
    revision = draft.revision or draft.wanted
    told = custom_resources.told(draft.seen.job.spec, f"deletion.{name}")
    return str(
        told or (revision.get(f"deletion.{name}") if revision else None) or built_in.value(f"deletion.{name}")
    )


def _deadline(draft: Draft) -> datetime:
    """Counted from the first look at the deletion, by the operator's own clock. The API server's may be another: the
    deletion of a job was given up at once where the operator's was ahead by the whole time."""
    begun = clock.parse(draft.intent.get("since")) if draft.intent.get("action") == "delete" else None
    return (begun or _wanted_since(draft)) + deadlines.of_deletion(_told(draft, "deadline"))
