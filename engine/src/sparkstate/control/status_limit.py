"""A status that its readers take. The operator reads no answer of more than 1 MiB: a driver with a longer one runs, and
nobody hears of its checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sparkstate.control import documents
from sparkstate.cut_text import cut

LONGEST: Final = 900_000
"""Bytes of a status."""
_TEXT: Final = 500
"""Characters of a notice that is cut."""
_MOST: Final = 20
"""Notices, storages and recoveries that stay where there are more."""

Status = documents.JobStatus


def shortened(status: Status) -> Status:
    """The status without what a reader misses least, as far as it takes; a notice says what is left out."""
    size = _size(status)
    if size <= LONGEST:
        return status
    found, left_out = status, list[str]()
    for name, leave_out in _PARTS:
        found = leave_out(found)
        left_out.append(name)
        told = (
            f"this status leaves out {', '.join(left_out)}: it would have {size} bytes, and its readers take "
            f"{LONGEST}; /metrics has all figures"
        )
        whole = found.model_copy(update={"notices": (told, *found.notices)})
        if _size(whole) <= LONGEST:
            return whole
    return found


def _size(status: Status) -> int:
    return len(status.model_dump_json().encode())


def _user_metrics(status: Status) -> Status:
    return status.model_copy(update={"user_metrics": ()})


def _operator_states(status: Status) -> Status:
    slots = tuple(slot.model_copy(update={"operator_states": ()}) for slot in status.slots)
    return status.model_copy(update={"slots": slots})


def _notices(status: Status) -> Status:
    """A long one loses its middle, because its remedy comes last."""
    notices = tuple(cut(text, _TEXT) for text in status.notices[:_MOST])
    return status.model_copy(update={"notices": notices})


def _recoveries(status: Status) -> Status:
    return status.model_copy(update={"recoveries": status.recoveries[-_MOST:]})


def _places(status: Status) -> Status:
    return status.model_copy(
        update={"storage_away": status.storage_away[:_MOST], "sinks": status.sinks[:_MOST]}
    )


_PARTS: Final[tuple[tuple[str, Callable[[Status], Status]], ...]] = (
    ("the metrics of functions", _user_metrics),
    ("the sizes of operator state", _operator_states),
    ("parts of its notices", _notices),
    ("older recoveries", _recoveries),
    ("some sinks and storages", _places),
)
