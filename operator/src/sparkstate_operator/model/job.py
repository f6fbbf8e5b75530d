"""The object itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sparkstate_operator.model.base import Model
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_operator.model.status import StatefulSparkJobStatus

GROUP = "sparkstate.io"
VERSION = "v1alpha1"
KIND = "StatefulSparkJob"
PLURAL = "statefulsparkjobs"


class StatefulSparkJob(Model):
    """A streaming Spark job with keyed state."""

    api_version: Literal["sparkstate.io/v1alpha1"]
    kind: Literal["StatefulSparkJob"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: StatefulSparkJobSpec
    status: StatefulSparkJobStatus | None = None
