"""What a decision about a job looks at, made by hand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sparkstate_operator import actions, labels, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import settings
from sparkstate_operator.decide import decide
from sparkstate_operator.model import StatefulSparkJobStatus

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPEC: dict[str, Any] = {
    "image": "example/job:1",
    "pythonFile": "/app/job.py",
    "deployment": "local",
    "state": "running",
    "upgradeMode": "last-state",
    "checkpointing": {"storage": "s3://bucket/state"},
}
DEATH_S = 30 + 60 + 10


def revision(**spec: Any) -> plan.Revision:
    return plan.of_spec("orders", settings.resolve({**SPEC, **spec}))


def job(
    status: Mapping[str, Any] | None = None,
    *,
    generation: int = 1,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (labels.FINALIZER,),
    **spec: Any,
) -> observed.Job:
    return observed.Job(
        name="orders",
        namespace="shop",
        uid="uid-1",
        resource_version="7",
        generation=generation,
        created=NOW - timedelta(hours=1),
        spec={**SPEC, **spec},
        status=status or {},
        finalizers=finalizers,
        deleting_at=NOW if deleting else None,
    )


def pod(attempt: int = 1, **fields: Any) -> observed.Pod:
    base = observed.Pod(
        name=f"orders-driver-{attempt}",
        uid=f"pod-{attempt}",
        resource_version="1",
        attempt=attempt,
        revision=revision().name,
        phase="Running",
        node="node-1",
        ip="10.0.0.1",
        ready=True,
    )
    return dataclasses.replace(base, **fields)


def ended(code: int, reason: str = "", **word: Any) -> observed.Termination:
    message = json.dumps({"reason": reason, "message": f"{reason} happened", "exit_code": code} | word)
    return observed.Termination(code, "Completed" if code == 0 else "Error", message if reason else "", NOW)


def trace(attempt: int) -> observed.Child:
    body = {"metadata": {"labels": {labels.REVISION: revision().name}, "annotations": {}}}
    return observed.Child("ConfigMap", f"orders-{attempt}", f"cm-{attempt}", "1", attempt, body)


def running_status(attempt: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "phase": "Running",
        "attempt": attempt,
        "revision": revision().name,
        "observedGeneration": 1,
        "selector": "x",
        **fields,
    }


def look(seen: observed.ObservedState, invalid: str = "") -> actions.Decision:
    known = {found.name: found for found in (revision(), revision(image="example/job:2"))}
    wanted = None if invalid else plan.of_spec("orders", settings.resolve(seen.job.spec))
    return stored(decide(seen, known, wanted, invalid, Config()))


def stored(decision: actions.Decision) -> actions.Decision:
    """As the API server will store it: of known fields only, and no default of the schema is left to be added."""
    status = StatefulSparkJobStatus.model_validate_json(json.dumps(decision.status))
    kept = json.loads(status.model_dump_json(by_alias=True, exclude_unset=True))
    defaulted = json.loads(status.model_dump_json(by_alias=True, exclude_none=True))
    assert kept.keys() == decision.status.keys()
    for name in ("memory", "restarts", "intent", "start", "refused", "conditions"):
        assert defaulted.get(name) == kept.get(name), name
    return decision


def acts(decision: actions.Decision, kind: type[Any]) -> list[Any]:
    return [action for action in decision.actions if isinstance(action, kind)]
