"""A job whose new version is asked whether it takes up the state."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from support.scene.decisions import NOW, acts, job, pod, revision, running_status

from sparkstate_operator import actions, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import settings
from sparkstate_operator.decide import decide

NEWER = {"image": "example/job:2"}
POINT = {"id": 4, "uri": "s3://bucket/state/00aa/chk-4"}


def stored(**fields: Any) -> dict[str, Any]:
    """The status of a job that runs and has a checkpoint."""
    return running_status(lastCheckpoint=POINT, **fields)


def look(status: dict[str, Any], *, later_s: float = 0, **fields: Any) -> actions.Decision:
    spec = fields.pop("spec", NEWER)
    generation = fields.pop("generation", 2)
    seen = observed.ObservedState(
        job(status, generation=generation, **spec),
        NOW + timedelta(seconds=later_s),
        drivers=fields.pop("drivers", (pod(),)),
        **fields,
    )
    wanted = plan.of_spec("orders", settings.resolve(seen.job.spec))
    known = {one.name: one for one in (revision(), revision(**NEWER), wanted)}
    return decide(seen, known, wanted, "", Config())


class Asked:
    """A job whose new version is being asked; ``command`` is what has come of the Job."""

    def __init__(self, **spec: Any) -> None:
        self.spec = {**NEWER, **spec}
        self.begun = look(stored(), spec=self.spec)
        self.status = dict(self.begun.status)
        (self.action,) = acts(look(self.status, spec=self.spec), actions.CreateCheck)

    def command(self, **fields: Any) -> observed.Command:
        found = observed.Command(self.action.name, "c-1", "1", "check", False, False)
        return dataclasses.replace(found, **fields)

    def look(self, command: observed.Command, later_s: float = 1, **fields: Any) -> actions.Decision:
        return look(self.status, later_s=later_s, spec=self.spec, commands=(command,), **fields)


def ended(*, succeeded: bool = False, **result: Any) -> dict[str, Any]:
    return {"succeeded": succeeded, "failed": not succeeded, "result": result, "ended_at": NOW}
