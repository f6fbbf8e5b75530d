"""A new revision that is refused, by the API server in a dry run of its pod or by the check of the state: the old one
runs on, and the upgrade is tried again.

The cause of a refusal may pass: others free a quota, a ServiceAccount comes a moment later, somebody mends a policy or
a webhook. So the dry run is repeated after pauses that double, even where the old attempt cannot run: the new version
may be the remedy for an old one that crashes again and again. While the old one only starts or recovers, the retry
waits until it runs, because nobody checks the state for a version whose predecessor does not run. For the same reason a
version that the check has refused is tried again only while the old one runs.
"""

from __future__ import annotations

from datetime import timedelta

from sparkstate_operator import clock, containers
from sparkstate_operator.core import job_life, quota, remedies, shortening
from sparkstate_operator.decide.draft import TERMINAL, Draft
from sparkstate_operator.observed import Death
from sparkstate_operator.plan import Revision

RETRY_S = 30.0
LONGEST_RETRY_S = 600.0
LONGEST = 4000
"""Characters of a text in ``status.refused``."""


def of_pod(draft: Draft, wanted: Revision) -> None:
    """The API server refuses an object of the new attempt."""
    why = f"the API server refuses an object of the new attempt, so the old one runs on: {draft.seen.refused}"
    remedy = remedies.remedy(draft.seen.refused)
    note(draft, wanted, f"{why}; {remedy}" if remedy else why, dry_run=True)


def of_key_groups(draft: Draft, wanted: Revision, why: str, *, goes_on: str) -> None:
    """It would begin without state, with fewer key groups than shards. ``goes_on``: what runs instead."""
    emptied = not wanted.get("startEmpty")
    remedy = "; or choose another upgradeMode, which goes on from the state with its own key groups"
    note(draft, wanted, f"{why}{remedy if emptied else ''}; {goes_on}")


def note(
    draft: Draft,
    wanted: Revision,
    why: str,
    *,
    dry_run: bool = False,
    first_s: float = RETRY_S,
    longest_s: float = LONGEST_RETRY_S,
) -> None:
    """Write down that it is refused, and when it is tried again: after ``first_s``, then after pauses that double.
    ``dry_run``: by the API server. A revision that the check has refused before stays one of those."""
    before = draft.status.get("refused") or {}
    if before.get("revision") != wanted.name:
        before = {}
    tries = int(before.get("tries") or 1) + 1 if before else 1
    alone = dry_run and (not before or before.get("dryRun"))
    verdict = before.get("verdict")
    pause_s = min(first_s * 2.0 ** min(tries - 1, 10), longest_s)
    draft.degraded = ("UpgradeRefused", why)
    draft.status["refused"] = {
        "revision": wanted.name,
        "message": shortening.shortened(why, LONGEST),
        "tries": tries,
        "nextTime": draft.later(pause_s),
        **({"dryRun": True} if alone else {}),
        **({"verdict": verdict} if verdict else {}),
    }
    draft.wait(pause_s)
    draft.note("UpgradeRefused", why, warning=True)


def verdict(draft: Draft, wanted: Revision) -> str:
    """Why the last check that judged the state refused this revision; empty if none did. Whatever keeps a later check
    from an answer does not make the state fit."""
    refused = draft.status.get("refused") or {}
    return str(refused.get("verdict") or "") if refused.get("revision") == wanted.name else ""


def keep_verdict(draft: Draft, why: str) -> None:
    """The check has just refused the state. It stays refused until another check lets the revision pass."""
    draft.status["refused"] = {**draft.status["refused"], "verdict": shortening.shortened(why, LONGEST)}


def drop_verdict(draft: Draft) -> None:
    """The revision takes the place of the one that runs, so no earlier verdict holds."""
    if "refused" in draft.status:
        draft.status["refused"] = {
            name: value for name, value in draft.status["refused"].items() if name != "verdict"
        }


def due(draft: Draft, longest_s: float) -> Revision | None:
    """The refused revision, if it is time to try it again. A time that is further ahead than the longest pause,
    ``longest_s``, comes from a clock that was ahead: it has come."""
    refused = draft.status.get("refused") or {}
    found = draft.revisions.get(str(refused.get("revision") or ""))
    if found is None or draft.intent or not _may_be_tried(draft, dry_run=bool(refused.get("dryRun"))):
        return None
    moment = clock.parse(refused.get("nextTime"))
    latest = draft.now + timedelta(seconds=longest_s)
    if moment is not None and draft.now < moment and not clock.is_ahead(moment, latest):
        draft.wait_until(moment)
        return None
    return found


def is_overtaken(draft: Draft) -> bool:
    """Whether a revision that the check has refused is being checked again, and the attempt that runs meanwhile does
    not live any more. Its successor is of the old revision: without a driver that lives, the check would be passed
    over, and the refused revision would start."""
    refused = draft.status.get("refused") or {}
    checked = draft.intent.get("action") == job_life.CHECK
    again = checked and draft.intent.get("revision") == refused.get("revision")
    return again and not refused.get("dryRun") and not _runs(draft)


def _may_be_tried(draft: Draft, *, dry_run: bool) -> bool:
    """Whether an attempt is there that the answer decides about. After a dry run it need not run: the old version may
    crash again and again, and the new one be its remedy. Where the job is over, nothing else would run. Without a pod
    the old version comes first, because a start of the new one would be refused, with nothing running meanwhile."""
    over = draft.phase in TERMINAL or (_lives(draft) and _cannot_start(draft))
    return _runs(draft) or (dry_run and over)


def _cannot_start(draft: Draft) -> bool:
    """Whether the driver's container has crashed and waits, or cannot be made, or waits for another one that fails. One
    that starts or recovers will run soon: a version that does not take up its state replaced it unchecked."""
    pod = draft.pod
    if pod is None or not pod.waiting:
        return False
    return pod.waiting not in containers.BEGINNING or pod.trouble is not None


def _runs(draft: Draft) -> bool:
    return _lives(draft) and draft.phase == "Running"


def _lives(draft: Draft) -> bool:
    pod = draft.pod
    return pod is not None and pod.death is Death.ALIVE and pod.deleting_at is None


def fits_when_stopped(draft: Draft) -> bool:
    """Whether a quota alone refuses the pod, and has room for it once the pods that run are gone. Of those, it has to
    count enough: a pod that it does not count, such as one of another priority, makes no room."""
    seen = draft.seen
    pods = [pod for pod in (*seen.drivers, *seen.executors) if not pod.over and not pod.is_stuck(seen.now)]
    return quota.fits_after(seen.refused, [pod.usage for pod in pods], seen.quota_scopes)
