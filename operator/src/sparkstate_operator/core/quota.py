"""Whether a pod that a ResourceQuota refuses would fit once another pod is gone.

A dry run counts the new pod on top of the one that it replaces. An upgrade stops that one first, so its share of the
quota is free when the new pod is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from sparkstate_spec import quantities

_REFUSAL = re.compile(
    r"exceeded quota: [^,]+, requested: (\S+), used: (\S+), limited: (\S+?)(?: \([0-9]+\))?$", re.MULTILINE
)
"""The words of the API server's admission, with resources as ``name=quantity`` and commas between them."""
_BARE = ("cpu", "memory", "ephemeral-storage")
"""Quotas name the requests of these with and without ``requests.``."""


def asks(spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The requests of a pod's containers, as quotas name them; a name comes once per container."""
    return (("pods", "1"), ("count/pods", "1"), *_asks(spec.get("containers") or ()))


def _asks(containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for container in containers:
        resources = container.get("resources") or {}
        for bound in ("requests", "limits"):
            for name, quantity in (resources.get(bound) or {}).items():
                yield f"{bound}.{name}", str(quantity)
                if bound == "requests" and name in _BARE:
                    yield name, str(quantity)


def fits_after(refusal: str, freed: Iterable[tuple[str, str]]) -> bool:
    """Whether a refusal is one by a quota that has room when ``freed`` is gone. False for any other refusal."""
    match = _REFUSAL.search(refusal)
    if match is None:
        return False
    free: dict[str, Fraction] = {}
    try:
        requested, used, limited = (_quantities(text) for text in match.groups())
        for name, quantity in freed:
            free[name] = free.get(name, Fraction(0)) + quantities.amount(quantity)
        return all(
            requested[name] + max(used[name] - free.get(name, Fraction(0)), Fraction(0)) <= limited[name]
            for name in requested
        )
    except (ValueError, KeyError):
        return False


def _quantities(text: str) -> dict[str, Fraction]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: quantities.amount(value) for name, _, value in pairs}
