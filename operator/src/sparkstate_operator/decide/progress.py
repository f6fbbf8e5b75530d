"""Takes the driver's own report into the fields of the status."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sparkstate_operator import answers, clock, observed
from sparkstate_operator.decide import last_words, restarts
from sparkstate_operator.decide.draft import Draft
from sparkstate_spec import units

_STOPS = "the old slots stop"
"""The step of a rescale while nothing is counted, in the phase Upgrading. The other one follows it."""
_STARTS = "the new slots start"
_OF_COMMAND = re.compile(r".{1,20} \d+ %: ")
_OF_SAVEPOINT = re.compile(r"\d+ %: ")
_UNITS = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10, "": 1}
_AMOUNTS = re.compile(r"(\d+)(Gi|Mi|Ki|) of (\d+)(Gi|Mi|Ki|)(?:, \S+ left)?")


def take(draft: Draft) -> None:
    """Everything that the report says about the state."""
    report = draft.seen.report
    if report is None:
        return
    document = report.document
    for name, value in (("lineage", document.get("lineage")), ("backend", document.get("backend"))):
        if value:
            draft.put(name, value)
    if document.get("state_bytes"):
        draft.put("stateSize", size(int(document["state_bytes"])))
    if slots := document.get("slots"):
        draft.put("slots", len(slots))
        if shards := sum(len(slot.get("shards") or ()) for slot in slots):
            draft.put("shards", shards)  # fixed from now on: a later spec is judged by it
    for name, source in (("lastCheckpoint", "last_checkpoint"), ("lastSavepoint", "last_savepoint")):
        if document.get(source):
            _newer(draft, name, checkpoint(document[source]))
    if document.get("checkpoints_completed"):
        draft.put("start", None)  # void from now on: a restart must go on from the lineage's own state


def checkpoint(info: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's CheckpointInfo as the status shows it."""
    duration = info.get("duration_ms")
    ended = clock.from_ms((info.get("trigger_ms") or 0) + (duration or 0)) if info.get("trigger_ms") else None
    fields = {
        "id": info.get("id"),
        "uri": info.get("path"),
        "epoch": info.get("epoch"),
        "time": clock.text(ended) if ended else None,
        "duration": units.format_duration(int(duration)) if duration is not None else None,
        "size": size(int(info["state_bytes"])) if info.get("state_bytes") is not None else None,
        "uploaded": size(int(info["uploaded_bytes"])) if info.get("uploaded_bytes") is not None else None,
        "triggerId": info.get("trigger_id"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def take_savepoint(draft: Draft, found: Mapping[str, Any]) -> None:
    """A SavepointStatus that completed."""
    old = draft.status.get("lastSavepoint") or {}
    if not found.get("location") or old.get("uri") == found.get("location"):
        return
    fields = {
        "uri": found["location"],
        "epoch": found.get("epoch"),
        "triggerId": found.get("trigger_id"),
        "time": clock.text(draft.now),
    }
    draft.put("lastSavepoint", {name: value for name, value in fields.items() if value is not None})
    draft.note("SavepointCompleted", f"savepoint {found['location']}")


def take_savepoint_of_word(draft: Draft, word: Mapping[str, Any]) -> None:
    """The driver's last word may carry its savepoint: ``{"reason": "Suspended", "savepoint": {…}}``."""
    found = word.get("savepoint")
    if isinstance(found, Mapping) and answers.fits(found, answers.SAVEPOINT):
        take_savepoint(draft, {**found, "location": found.get("location") or found.get("url")})


def _newer(draft: Draft, name: str, found: dict[str, Any]) -> None:
    old = draft.status.get(name) or {}
    if int(found.get("id") or 0) >= int(old.get("id") or 0) or old.get("uri") != found.get("uri"):
        draft.put(name, found)


def size(count: int) -> str:
    """Bytes for people, as a quantity: ``5Mi``, ``1200Ki``."""
    for unit, factor in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if count >= 10 * factor:
            return f"{round(count / factor)}{unit}"
    return str(count)


def long_work(document: Mapping[str, Any]) -> str:
    """The work of a JobStatus that takes long, such as ``restore 120Mi of 1200Mi, 27s left``; empty without one."""
    return "; ".join(_work(one) for one in (document.get("progress") or ())[:3])


def under_way(draft: Draft) -> str:
    """The long work of the job's driver, or of the command that the decision waits for. In a rescale it stands behind
    the numbers of slots, from the stop of the old ones until the new ones have reported.

    A job with an act under way is looked at every two seconds. Between two times to write progress, its words stay as
    they were until the next ten percent: each change is a write to the API server, and there may be many jobs.
    """
    told, before = _told(draft), str(draft.seen.job.status.get("progress") or "")
    same = draft.intent and not draft.seen.progress_due and _steps(told) == _steps(before)
    return before if same else told


def _told(draft: Draft) -> str:
    report = draft.seen.report
    told = (long_work(report.document) if report is not None else "") or draft.work
    has, aimed = draft.status.get("slots"), draft.wanted
    moves = draft.intent.get("action") in ("upgrade", "start") or draft.phase in ("Upgrading", "Starting")
    if not moves or not has or aimed is None or aimed.slots == has:
        return told
    step = _STOPS if draft.phase == "Upgrading" else _STARTS
    return f"rescale {has} to {aimed.slots} slots: {told or step}"


def _steps(told: str) -> tuple[str, tuple[int, ...]]:
    """Words without their amounts, and these in steps of ten percent."""
    amounts = _AMOUNTS.findall(told)
    steps = (
        10 * int(done) * _UNITS[done_unit] // max(int(total) * _UNITS[total_unit], 1)
        for done, done_unit, total, total_unit in amounts
    )
    return _AMOUNTS.sub("", told), tuple(steps)


def of_command(command: observed.Command | None, before: str | None) -> str:
    """How far an engine command says that it is, such as ``purge 10 %: 120Mi of 1200Mi, 27s left``; empty where it does
    not say. It is ``before`` until the next ten percent: each change is a write to the API server."""
    works = (command.progress.get("progress") or ()) if command is not None else ()
    for one in works:
        head = f"{str(one.get('kind'))[:20]} {_share(one)} %: "
        return before if before is not None and before.startswith(head) else f"{head}{_amounts(one)}"
    return ""


def is_of_command(text: str | None) -> bool:
    """Whether these are the words of :func:`of_command`."""
    return bool(text and _OF_COMMAND.match(text))


def of_savepoint(document: Mapping[str, Any], trigger: str, before: str | None) -> str | None:
    """How far a JobStatus says that a savepoint is, such as ``10 %: 120Mi of 1200Mi, 27s left``; None where it does
    not say. It is ``before`` until the next ten percent: each change is a write to the API server."""
    for one in document.get("progress") or ():
        if (one.get("kind"), one.get("name")) == ("savepoint", trigger):
            head = f"{_share(one)} %: "
            return before if before is not None and before.startswith(head) else f"{head}{_amounts(one)}"
    return None


def is_of_savepoint(text: str | None) -> bool:
    """Whether these are the words of :func:`of_savepoint`."""
    return bool(text and _OF_SAVEPOINT.match(text))


def _work(one: Mapping[str, Any]) -> str:
    name = f" {str(one.get('name'))[:100]}" if one.get("name") else ""
    return f"{str(one.get('kind'))[:20]}{name} {_amounts(one)}"


def _share(one: Mapping[str, Any]) -> int:
    """Percent that are done, in steps of ten."""
    tenths = 10 * int(one.get("done_bytes") or 0) // max(int(one.get("total_bytes") or 0), 1)
    return min(max(tenths, 0), 10) * 10


def _amounts(one: Mapping[str, Any]) -> str:
    done, total, left = one.get("done_bytes") or 0, one.get("total_bytes") or 0, one.get("left_ms")
    rest = "" if left is None else f", {units.format_duration(max(1, round(left / 1000)) * 1000)} left"
    return f"{size(done)} of {size(total)}{rest}"


def bump(total: int, seen: int, now: int) -> int:
    """A total over counters that begin anew with each life. ``seen``: the last value that was counted in."""
    return total + (now - seen if now >= seen else now)


def count_restarts(draft: Draft) -> None:
    """Restarts by owner: the engine's from its report, the kubelet's from the pod, the operator's are its own."""
    pod, report = draft.pod, draft.seen.report
    counts = dict(draft.status.get("restarts") or {})
    if pod is not None:
        before = int(counts.get("kubelet") or 0)
        counts["kubelet"] = bump(before, int(counts.get("attemptKubelet") or 0), pod.restarts)
        counts["attemptKubelet"] = pod.restarts
        _count_crashes(draft, counts, counts["kubelet"] - before)
    if report is not None and report.document.get("restarts") is not None:
        engine = int(report.document["restarts"])
        seen = int(counts.get("attemptEngine") or 0)
        counts["engine"] = bump(int(counts.get("engine") or 0), seen, engine)
        counts["attemptEngine"] = engine
    put_restarts(draft, counts)


def _count_crashes(draft: Draft, counts: dict[str, Any], number: int) -> None:
    """Each restart by the kubelet follows a failure, which counts for the restart strategy like one that a new attempt
    follows. They were forgotten with their pod, and a strategy that allows 10 restarts allowed 65. Nobody knows when
    those of a lost status were, so they do not count."""
    revision, known = draft.revision or draft.wanted, bool(draft.seen.job.status.get("phase"))
    if draft.pod is not None and draft.pod.crash is not None and last_words.is_of_node(draft.pod.crash):
        number -= 1  # the newest
    if number > 0 and known and revision is not None:
        earlier, spread = restarts.failures_of(counts), draft.seen.job.uid
        failed_at = _failed_at(draft, earlier)
        # Of several restarts since the last look nobody knows the times, so those before the newest do not count yet.
        verdict = restarts.answer(revision, earlier, failed_at, spread)
        draft.exhausted = verdict.why if isinstance(verdict, restarts.NoRestart) else ""
        found = restarts.remembered(revision, earlier, failed_at, spread, number=number)
        counts["recent"] = [clock.text(failed) for failed in found]


def _failed_at(draft: Draft, earlier: Sequence[datetime]) -> datetime:
    """When the container failed that the kubelet has started again. An operator that was away finds an old failure, and
    as one of now it might be one too many. The node's clock tells the time, so it is held between the failure before it
    and this look."""
    crash = draft.pod.crash if draft.pod is not None else None
    told = crash.at if crash is not None and crash.at is not None else draft.now
    return max([min(told, draft.now), *earlier[-1:]])


def put_restarts(draft: Draft, counts: Mapping[str, Any]) -> None:
    """The counters with their sum; nothing where all are zero."""
    owners = {owner: int(counts.get(owner) or 0) for owner in ("engine", "kubelet", "operator")}
    kept = {name: value for name, value in counts.items() if value and name not in (*owners, "total")}
    total = sum(owners.values())
    draft.put(
        "restarts",
        {**owners, "total": total, **kept} if total or kept or draft.status.get("restarts") else None,
    )
