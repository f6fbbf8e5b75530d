"""Judges a job's spec with the chart's defaults: it makes a revision of it, or says why the spec cannot run.

Any error in judging is reported as an error of the spec, in the job's status. If it ended the reconcile instead, nobody
would look after the job and it could not be deleted: a pod template that could not be read once froze its job, failover
and deletion included.
"""

from __future__ import annotations

import json
import logging

from sparkstate_operator import actions, errors, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import memory, placing, problems, settings, templates
from sparkstate_operator.objects import children, driver, parts
from sparkstate_operator.objects.parts import Context

_log = logging.getLogger(__name__)
_LONGEST = 2000
LARGEST = (1 << 20) - (32 << 10)
"""Bytes of an attempt's ConfigMap. The API server takes 1 MiB; the rest is for what only the attempt knows, above all
the place that it restores from."""


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
