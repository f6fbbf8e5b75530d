"""The forms of single values, and the words for them. The patterns must mean the same to RE2 (the API server), Rust
(pydantic) and Python."""

from __future__ import annotations

from sparkstate_spec import units

DURATION = f"^{units.DURATION.pattern}$"
QUANTITY = f"^{units.QUANTITY.pattern}$"
LOCATION = r"^[^\s]+$"
NOT_WHOLE = "^(file://[^/]|s3:///|s3://$|file:///?$|(file|s3|s3a|s3n):/?[^/]|file:.*[?#]|~/)"
"""A storage URL without its host's place, its path or one of its slashes; a ``file://`` URL that would lose all from a
``#`` or ``?`` on; a home folder, which only shells know."""
IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]*$"
MODULE = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
CLASS = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
BACKEND_CLASS = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*[.:][A-Za-z_][A-Za-z0-9_]*$"
OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
ENDPOINT = r"^https?://[^\s]+$"
KEY = r"^[-._a-zA-Z0-9]+$"


def _cron_field(number: str, names: str = "") -> str:
    value = f"({number}|{names})" if names else f"({number})"
    item = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


CRON = (
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

HINTS = {
    DURATION: units.DURATION_HINT,
    QUANTITY: units.QUANTITY_HINT,
    LOCATION: "must be a URL such as s3://bucket/prefix or file:///path, without spaces",
    IDENTIFIER: "must be the name of a function",
    MODULE: "must name a module, such as shop.orders",
    CLASS: "must be module:Class",
    BACKEND_CLASS: "must be module:Class or module.Class",
    OBJECT_NAME: "must be the name of a Kubernetes object (a-z, 0-9, '-' and '.')",
    ENDPOINT: "must be a URL that starts with http:// or https://",
    KEY: "must consist of letters, digits, '-', '_' and '.'",
    CRON: "must be a cron line such as '0 3 * * *' or @daily",
}
"""The demand of each pattern, in words."""

LATER_SCHEMES = "^(gs|gcs|abfs|abfss|wasb|wasbs|hdfs|viewfs)://"
"""Storage of later versions."""
