"""Types of single values, by the patterns of ``sparkstate_spec.values``.

Each text, list and map of the spec has a bound, because the API server estimates the cost of a CEL rule by the bounds.
With one map or its texts unbounded, Kubernetes 1.36 refused the definition of the job: without ``maxProperties`` of
``params`` the rules exceeded the budget more than 100 times, without the ``maxLength`` of its texts 5.8 times.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from sparkstate_spec import values

Duration = Annotated[str, StringConstraints(pattern=values.DURATION, max_length=32)]
"""Go's spelling: ``30s``, ``5m``, ``1h30m``, ``500ms``."""
Quantity = Annotated[str, StringConstraints(pattern=values.QUANTITY, max_length=32)]
"""Kubernetes' spelling: ``256Mi``, ``1Gi``."""
Location = Annotated[str, StringConstraints(pattern=values.LOCATION, min_length=1, max_length=1024)]
"""``s3://bucket/prefix``, ``file:///path`` or a plain path. Schemes are judged by CEL rules, which explain more."""
Cron = Annotated[str, StringConstraints(pattern=values.CRON, max_length=128)]
ObjectName = Annotated[str, StringConstraints(pattern=values.OBJECT_NAME, max_length=253)]
Text = Annotated[str, StringConstraints(max_length=1024)]
LongText = Annotated[str, StringConstraints(max_length=8192)]
