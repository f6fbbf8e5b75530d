"""Whether an existing object is the one that we mean, and has the fields that we want."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate_operator import errors

Object = Mapping[str, Any]


def require_ours(live: Object, wanted: Mapping[str, str]) -> None:
    """Raise ``Foreign`` unless it has these labels."""
    meta = live["metadata"]
    if not wanted.items() <= (meta.get("labels") or {}).items():
        raise errors.Foreign(
            f"{live.get('kind', 'object')} {meta['namespace']}/{meta['name']} exists without the labels "
            f"{dict(wanted)}, so it belongs to somebody else; delete it, or choose another name"
        )


def contains(live: Any, wanted: Any) -> bool:
    """Whether ``live`` has every field of ``wanted``; lists must be equal, entry by entry, in this sense."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            name in live and contains(live[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(contains, live, wanted))
    return bool(live == wanted)
