"""Judges a job's spec with the chart's defaults: it makes a revision of it, or says why the spec cannot run.

Any error in judging is reported as an error of the spec, in the job's status. If it ended the reconcile instead, nobody
would look after the job and it could not be deleted: a pod template that could not be read once froze its job, failover
and deletion included.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from sparkstate_operator import actions, errors, labels, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, memory, placing, problems, settings, shortening, templates
from sparkstate_operator.objects import children, driver, parts
from sparkstate_operator.objects.parts import Context

_log = logging.getLogger(__name__)
_LONGEST = 2000
LARGEST = (1 << 20) - (32 << 10)
"""Bytes of an attempt's ConfigMap. The API server takes 1 MiB; the rest is for what only the attempt knows, above all
the place that it restores from."""
Verdict = tuple[plan.Revision | None, str]
"""The revision that a spec is, or why it cannot run."""


def judge(job: observed.Job, config: Config, known: Mapping[str, plan.Revision] | None = None) -> Verdict:
    """The revision that the spec is, or None and why it cannot run. Raises nothing.

    ``known``: the job's revisions by name, with the one that runs.
    """
    try:
        return _revision(job, config, (known or {}).get(str(job.status.get("revision") or ""))), ""
    except errors.SpecInvalid as error:
        return None, shortening.shortened(str(error), _LONGEST)
    except Exception as error:
        fields = {"object": job.name, "namespace": job.namespace}
        _log.exception("a spec could not be judged", extra=fields)
        return None, unforeseen("the spec", error)


def unforeseen(what: str, error: Exception) -> str:
    """The message for a spec on which the operator's own code failed."""
    told = f"{what} cannot be turned into pods: {type(error).__name__}: {error}"
    return shortening.shortened(told, _LONGEST)


def _revision(job: observed.Job, config: Config, old: plan.Revision | None) -> plan.Revision:
    resolved = settings.resolve(
        job.spec,
        config.defaults,
        fixed=lambda wanted: _fixed(job, old, wanted),
        begins_empty=lambda wanted: _begins_empty(job, old, wanted),
    )
    problems.raise_if_any(templates.problems(resolved))
    problems.raise_if_any(memory.problems(resolved, memory.sums(resolved)))
    revision = plan.of_spec(job.name, resolved)
    _rehearse(Context(job, revision, config))
    return revision


def _fixed(
    job: observed.Job, old: plan.Revision | None, wanted: settings.Resolved
) -> settings.KeySpace | None:
    """The key space of the state that the job goes on from. A spec that newly asks for no state, or for a savepoint,
    begins a lineage with a key space of its own: the engine chooses or finds that, and judges the spec by it."""
    if not job.status.get("shards") or _leaves_state(job):
        return None
    named = any(wanted.get(name) for name in ("startEmpty", "restoreFrom.uri", "restoreFrom.snapshotRef"))
    told = old is not None and any(
        old.get(name) != wanted.get(name) for name in ("startEmpty", "restoreFrom")
    )
    if named and told:
        return None
    return settings.KeySpace(int(job.status["shards"]))


def _begins_empty(job: observed.Job, old: plan.Revision | None, wanted: settings.Resolved) -> bool:
    """Whether it is certain that the next attempt begins without state, so that its key space is what the spec says.

    Nobody can tell without ``startEmpty``: the storage may have state by the job's name, as that of a job that was
    deleted. Once ``startEmpty`` was carried out, the job has state, perhaps of a time when it had more slots."""
    if not wanted.get("startEmpty"):
        return False
    return not old.get("startEmpty") if old is not None else _never_began(job)


def _never_began(job: observed.Job) -> bool:
    """Whether the job has never had an attempt; False where its status was lost, which would tell."""
    if job.status.get("attempt") or (job.status.get("intent") or {}).get("action") == job_life.RECOVER:
        return False
    return bool(job.status.get("phase")) or labels.FINALIZER not in job.finalizers


def _leaves_state(job: observed.Job) -> bool:
    """Whether an attempt is being made that begins a new lineage. The status has the shards of the old one until its
    pod is there, in case the instruction is taken back before."""
    making = (job.status.get("intent") or {}).get("action") == "start"
    return making and actions.Start.of(job.status.get("start")).begins_lineage


def _rehearse(context: Context) -> None:
    """Build the objects of an attempt now. Later the same error would come when a driver has to be replaced."""
    parts.as_text(driver.pod(context, 1))
    _require_room(children.config_map(context, 1, actions.Start())["data"])
    children.revision(context)
    placing.of_job(context.revision.resolved, placing.urls_of(context.revision.resolved))


def _require_room(data: parts.Object) -> None:
    """The API server refuses a larger ConfigMap. It did so after the attempt that ran had been stopped for it."""
    size = sum(len(text.encode()) for text in data.values())
    if size <= LARGEST:
        return
    sizes = {name: len(json.dumps(value)) for name, value in json.loads(data["job.yaml"])["spec"].items()}
    sizes["executorTemplate"] = len(data.get("executor.yaml", ""))
    largest = max(sizes, key=lambda name: sizes[name])
    remedy = (
        f"is too large: the ConfigMap of an attempt would have {size} bytes, and at most {LARGEST} fit into one; "
        "shorten it, or put its contents into the image or into a ConfigMap of your own"
    )
    raise errors.SpecInvalid(str(problems.Problem(f"spec.{largest}", remedy, f"{sizes[largest]} bytes long")))
