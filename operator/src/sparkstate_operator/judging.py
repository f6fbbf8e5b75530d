"""Judges a job's spec with the chart's defaults: it makes a revision of it, or says why the spec cannot run.

Any error in judging is reported as an error of the spec, in the job's status. If it ended the reconcile instead, nobody
would look after the job and it could not be deleted: a pod template that could not be read once froze its job, failover
and deletion included.
"""

from __future__ import annotations

import logging

from sparkstate_operator import actions, errors, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import memory, placing, problems, settings, templates
from sparkstate_operator.objects import children, driver, parts
from sparkstate_operator.objects.parts import Context

_log = logging.getLogger(__name__)
_LONGEST = 2000


def judge(job: observed.Job, config: Config) -> tuple[plan.Revision | None, str]:
    """The revision that the spec is, or None and why it cannot run. Raises nothing."""
    try:
        return _revision(job, config), ""
    except errors.SpecInvalid as error:
        return None, str(error)[:_LONGEST]
    except Exception as error:
        fields = {"object": job.name, "namespace": job.namespace}
        _log.exception("a spec could not be judged", extra=fields)
        return None, unforeseen("the spec", error)


def unforeseen(what: str, error: Exception) -> str:
    """The message for a spec on which the operator's own code failed."""
    return f"{what} cannot be turned into pods: {type(error).__name__}: {error}"[:_LONGEST]


def _revision(job: observed.Job, config: Config) -> plan.Revision:
    fixed = settings.KeySpace(int(job.status["shards"])) if job.status.get("shards") else None
    resolved = settings.resolve(job.spec, config.defaults, fixed)
    problems.raise_if_any(templates.problems(resolved))
    problems.raise_if_any(memory.problems(resolved, memory.sums(resolved)))
    revision = plan.of_spec(job.name, resolved)
    _rehearse(Context(job, revision, config))
    return revision


def _rehearse(context: Context) -> None:
    """Build the objects of an attempt now. Later the same error would come when a driver has to be replaced."""
    parts.as_text(driver.pod(context, 1))
    children.config_map(context, 1, actions.Start())
    children.revision(context)
    placing.of_job(context.revision.resolved, placing.urls_of(context.revision.resolved))
