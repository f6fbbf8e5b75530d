"""Types of single values, by the patterns of ``sparkstate_spec.values``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Strict, StringConstraints

from sparkstate_spec import values

Duration = Annotated[str, StringConstraints(pattern=values.DURATION, max_length=32)]
"""Go's spelling: ``30s``, ``5m``, ``1h30m``, ``500ms``."""
Quantity = Annotated[str, StringConstraints(pattern=values.QUANTITY, max_length=32)]
"""Kubernetes' spelling: ``256Mi``, ``1Gi``."""
Location = Annotated[str, StringConstraints(pattern=values.LOCATION, min_length=1, max_length=1024)]
"""``s3://bucket/prefix``, ``file:///path`` or a plain path. Schemes are judged by CEL rules, which explain
more."""
Cron = Annotated[str, StringConstraints(pattern=values.CRON, max_length=128)]
ObjectName = Annotated[str, StringConstraints(pattern=values.OBJECT_NAME, max_length=253)]
Text = Annotated[str, StringConstraints(max_length=1024)]
LongText = Annotated[str, StringConstraints(max_length=8192)]

Listed = Strict(False)
"""Lets a JSON list become a tuple."""
