"""A job that is deployed to a cluster, as the operator builds its children."""

from __future__ import annotations

from typing import Any

from sparkstate_operator import observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import settings as operator_settings
from sparkstate_operator.objects import parts
from sparkstate_operator.plan import Revision

SPEC: dict[str, Any] = {
    "image": "shop:1",
    "pythonFile": "/opt/job/job.py",
    "deployment": "cluster",
    "slots": 5,
    "slotsPerExecutor": 2,
    "stateBackend": {"type": "rocksdb"},
    "checkpointing": {"storage": "s3://bucket/jobs"},
    "s3": {"endpoint": "http://minio:9000", "secretRef": {"name": "keys"}},
}
UID = "9c2f4c5e-0000-4000-8000-000000000001"


def context(**spec: Any) -> parts.Context:
    resolved = operator_settings.resolve({**SPEC, **spec})
    job = observed.Job(
        name="rotations",
        namespace="shop",
        uid=UID,
        resource_version="1",
        generation=1,
        created=None,  # type: ignore[arg-type]
        spec={},
        status={},
        finalizers=(),
    )
    return parts.Context(job, Revision("rotations-1", resolved), Config(cluster="blue"))
