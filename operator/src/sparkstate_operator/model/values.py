"""Patterns of single values. They must mean the same to RE2 (the API server), Rust (pydantic) and Python (the
engine)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Strict, StringConstraints

DURATION_PATTERN = r"^([0-9]+(ms|s|m|h))+$"
QUANTITY_PATTERN = r"^(0|([1-9][0-9]*|[0-9]+\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?)$"
LOCATION_PATTERN = r"^[^\s]+$"
IDENTIFIER_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
MODULE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
CLASS_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
OBJECT_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
ENDPOINT_PATTERN = r"^https?://[^\s]+$"
KEY_PATTERN = r"^[-._a-zA-Z0-9]+$"
LATER_SCHEMES = "^(gs|gcs|abfs|abfss|wasb|wasbs|hdfs|viewfs)://"
"""Storage of later versions."""


def _cron_field(number: str, names: str = "") -> str:
    value = f"({number}|{names})" if names else f"({number})"
    item = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


CRON_PATTERN = (
    "^(@(hourly|daily|weekly|monthly|yearly)|"
    + " +".join(
        (
            _cron_field("[1-5]?[0-9]"),
            _cron_field("1?[0-9]|2[0-3]"),
            _cron_field("[1-9]|[12][0-9]|3[01]"),
            _cron_field("[1-9]|1[0-2]", "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"),
            _cron_field("[0-7]", "sun|mon|tue|wed|thu|fri|sat"),
        )
    )
    + ")$"
)

Duration = Annotated[str, StringConstraints(pattern=DURATION_PATTERN, max_length=32)]
"""Go's spelling: ``30s``, ``5m``, ``1h30m``, ``500ms``."""
Quantity = Annotated[str, StringConstraints(pattern=QUANTITY_PATTERN, max_length=32)]
"""Kubernetes' spelling: ``256Mi``, ``1Gi``."""
Location = Annotated[str, StringConstraints(pattern=LOCATION_PATTERN, min_length=1, max_length=1024)]
"""``s3://bucket/prefix``, ``file:///path`` or a plain path. Schemes are judged by CEL rules, which explain
more."""
Cron = Annotated[str, StringConstraints(pattern=CRON_PATTERN, max_length=128)]
ObjectName = Annotated[str, StringConstraints(pattern=OBJECT_NAME_PATTERN, max_length=253)]
Text = Annotated[str, StringConstraints(max_length=1024)]
LongText = Annotated[str, StringConstraints(max_length=8192)]

Listed = Strict(False)
"""Lets a JSON list become a tuple."""
