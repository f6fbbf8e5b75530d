"""Merges the user's pod template with the fields that the operator sets: maps merge, named lists merge by name, and the
operator's value wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMED = ("containers", "initContainers", "volumes", "volumeMounts", "env", "imagePullSecrets", "ports")
KEYS = {"volumeMounts": "mountPath"}
"""The field that identifies an entry, where it is not its name."""
WHOLE = ("volumeMounts", "env")
"""Lists whose entries take nothing of theirs: a ``subPath`` of theirs would be looked for in our volume, and a variable
with both ``value`` and ``valueFrom`` is refused."""


ONE_OF = ("livenessProbe", "readinessProbe", "startupProbe", "seccompProfile")
"""Maps of which a field excludes others: two handlers of a probe, or a profile's file beside another type."""


def merge(theirs: Any, ours: Any, field: str = "") -> Any:
    """``ours`` over ``theirs``. A list that is not of named entries is taken from ours, if ours has one."""
    if field in ONE_OF:
        return ours
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        names = [*theirs, *(name for name in ours if name not in theirs)]
        return {
            name: merge(theirs[name], ours[name], name)
            if name in theirs and name in ours
            else (ours[name] if name in ours else theirs[name])
            for name in names
        }
    if field in NAMED and isinstance(theirs, list) and isinstance(ours, list):
        return _by_name(theirs, ours, field)
    return ours


def _by_name(theirs: list[Any], ours: list[Any], field: str) -> list[Any]:
    key = KEYS.get(field, "name")
    rest = {entry.get(key): entry for entry in theirs if isinstance(entry, Mapping)}
    merged = [entry if field in WHOLE else merge(rest.pop(entry.get(key), {}), entry) for entry in ours]
    # Not by ``rest``, a dict that holds one entry without a name at most: a template may have several (ports, above
    # all).
    ours_named = {entry.get(key) for entry in ours}
    others = (entry for entry in theirs if not isinstance(entry, Mapping) or entry.get(key) not in ours_named)
    return [*merged, *others]
