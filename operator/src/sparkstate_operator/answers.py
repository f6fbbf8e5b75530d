"""Checks the answers of drivers and engine commands against the fields that decisions read.

User code runs beside the driver, and may itself be what answers. A field of another type would end the decision, or
have the API server refuse the status that it is written into. Nobody would look after the job any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LARGEST = 2**63 - 1
"""Of JSON numbers in the API server."""
_LONGEST = 2**14
"""Characters of a text. Some of them become fields of the job's status, of which the API server takes about 1.5 MB."""
_LATEST_MS = 2**46
"""In the year 4199, so that the sum of two is still a time that can be written."""

CHECKPOINT: dict[str, Any] = {
    "id": int, "path": str, "epoch": int, "trigger_ms": int, "duration_ms": int, "state_bytes": int,
    "uploaded_bytes": int, "trigger_id": str,
}  # fmt: skip
STATUS: dict[str, Any] = {
    "phase": str, "lineage": str, "backend": str, "state_bytes": int, "restarts": int, "waits_for_attempt": int,
    "checkpoints_completed": int, "slots": [{"shards": list}], "last_checkpoint": CHECKPOINT,
    "last_savepoint": CHECKPOINT, "storage_away": [{"url": str, "doing": str, "failures": int}],
    "progress": [{"kind": str, "name": str, "done_bytes": int, "total_bytes": int, "left_ms": int}],
    "operator_state_notice": {"slot": int, "operator": str, "state": str, "used_bytes": int, "limit_bytes": int},
}  # fmt: skip
SAVEPOINT: dict[str, Any] = {"status": str, "location": str, "url": str, "epoch": int, "trigger_id": str}
SNAPSHOT: dict[str, Any] = {"epoch": int, "lineage": str, "slots": int, "state_bytes": int}
RESTORE_INFO: dict[str, Any] = {
    "found": bool, "lineage": str, "attempt": int, "restore_point": {
        "id": int, "url": str, "epoch": int, "timestamp_ms": int, "state_bytes": int, "trigger_id": str,
        "kind": str, "backend": str, "shards": int, "drained": bool,
    },
}  # fmt: skip

CHECK: dict[str, Any] = {"ok": bool, "compatible": bool, "url": str, "message": str}


def require(found: Any, shape: Mapping[str, Any], where: str = "answer") -> None:
    """Raise ValueError unless every field of ``shape`` that is there has its type. Null is not there."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{where} is a {type(found).__name__}, not an object")
    for name, wanted in shape.items():
        value = found.get(name)
        if value is not None:
            _require(value, wanted, f"{where}.{name}")


def fits(found: Any, shape: Mapping[str, Any]) -> bool:
    """Whether :func:`require` has nothing to say."""
    try:
        require(found, shape)
    except ValueError:
        return False
    return True


def _require(value: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, Mapping):
        require(value, wanted, where)
    elif isinstance(wanted, list):
        _require(value, list, where)
        for position, entry in enumerate(value):
            require(entry, wanted[0], f"{where}[{position}]")
    elif not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ValueError(f"{where} is a {type(value).__name__}, not a {wanted.__name__}")
    elif wanted is str and len(value) > _LONGEST:
        raise ValueError(f"{where} has {len(value)} characters, more than {_LONGEST}")
    elif wanted is int and not (
        0 <= value <= _LATEST_MS if where.endswith("_ms") else abs(value) <= _LARGEST
    ):
        raise ValueError(f"{where} is {value}, which is out of range")
