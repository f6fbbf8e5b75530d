"""How much a pod uses of a ResourceQuota, as the API server counts it, and what decides whether a quota counts it.

The sums are those of ``PodRequests`` and ``PodLimits`` in Kubernetes (``component-helpers/resource``), of KEP-753::

    containers and sidecars run together          the sum of all of them
    init container i runs beside the sidecars     its own amount, and those of the sidecars before it
    before it                                     the largest of these amounts counts, for each resource by itself
    the pod's own resources                       replace what came of its containers
    the RuntimeClass' overhead                    comes on top: always of requests, and of limits where there is one

A sidecar is an init container that is always restarted. A template brings all but the driver's container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparkstate_spec import quantities

Document = Mapping[str, Any]
Amounts = tuple[tuple[str, str], ...]
"""Quantities as the pod has them, by the names of quotas (``requests.cpu``)."""
Sums = dict[str, Fraction]
_BARE = ("cpu", "memory", "ephemeral-storage")
"""Quotas name the requests of these with and without ``requests.``, and those of huge pages too."""
_WHOLE = ("cpu", "memory")
"""A pod may have these resources as a whole, and huge pages."""
_HUGE = "hugepages-"


@dataclass(frozen=True, slots=True)
class InitUsage:
    """One init container's share."""

    amounts: Amounts
    sidecar: bool
    """Whether it runs on beside the containers."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """One pod's share. Its quantities are read only where a quota has refused a pod: pods are looked at all the time,
    and refusals are few."""

    containers: tuple[Amounts, ...] = ()
    init: tuple[InitUsage, ...] = ()
    whole: Amounts = ()
    """Of the pod itself, whatever its containers ask for."""
    overhead: tuple[tuple[str, str], ...] = ()
    """By the names of resources (``cpu``)."""
    best_effort: bool = False
    terminating: bool = False
    """Whether it has a deadline."""
    priority_class: str = ""
    crosses_namespaces: bool = False
    """Whether its affinity is about pods of other namespaces."""

    def sums(self) -> Sums:
        """By the names of quotas. Raises ValueError for text that is not a quantity."""
        found = _peak(self)
        found.update((name, quantities.amount(text)) for name, text in self.whole)
        for resource, text in self.overhead:
            more, limit = quantities.amount(text), f"limits.{resource}"
            add(found, {f"requests.{resource}": more})
            if found.get(limit):
                add(found, {limit: more})
        requests = {name.removeprefix("requests."): amount for name, amount in found.items()}
        bare = {name: amount for name, amount in requests.items() if _is_bare(name)}
        return {"pods": Fraction(1), "count/pods": Fraction(1), **found, **bare}


NOTHING = PodUsage()


def _is_bare(name: str) -> bool:
    return name in _BARE or name.startswith(_HUGE)


def _peak(pod: PodUsage) -> Sums:
    """The most that its containers use at one time."""
    together: Sums = {}
    for amounts in (*pod.containers, *(one.amounts for one in pod.init if one.sidecar)):
        add(together, _read(amounts))
    sidecars: Sums = {}
    for one in pod.init:
        starting = dict(sidecars)
        add(starting, _read(one.amounts))
        if one.sidecar:
            sidecars = starting
        for name, amount in starting.items():
            together[name] = max(together.get(name, amount), amount)
    return together


def add(sums: Sums, more: Mapping[str, Fraction]) -> None:
    """Add to each of ``sums``."""
    for name, amount in more.items():
        sums[name] = sums.get(name, Fraction(0)) + amount


def _read(amounts: Amounts) -> Sums:
    return {name: quantities.amount(text) for name, text in amounts}


# -- from the API server's document ------------------------------------------------------------------------------------


def read(body: Document) -> PodUsage:
    """Of a pod. The API server itself says whether it is of the class BestEffort."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    init = spec.get("initContainers") or ()
    deadline = spec.get("activeDeadlineSeconds")
    return PodUsage(
        containers=tuple(_amounts(one) for one in spec.get("containers") or ()),
        init=tuple(InitUsage(_amounts(one), one.get("restartPolicy") == "Always") for one in init),
        whole=tuple(pair for pair in _amounts(spec) if _is_whole(pair[0].partition(".")[2])),
        overhead=tuple((name, str(quantity)) for name, quantity in (spec.get("overhead") or {}).items()),
        best_effort=status.get("qosClass") == "BestEffort",
        terminating=deadline is not None and deadline >= 0,
        priority_class=spec.get("priorityClassName") or "",
        crosses_namespaces=any(_crosses(term) for term in _terms(spec.get("affinity") or {})),
    )


def _is_whole(name: str) -> bool:
    return name in _WHOLE or name.startswith(_HUGE)


def _amounts(given: Document) -> Amounts:
    """Of a container, or of the pod's spec."""
    resources = given.get("resources") or {}
    return tuple(
        (f"{bound}.{name}", str(quantity))
        for bound in ("requests", "limits")
        for name, quantity in (resources.get(bound) or {}).items()
    )


def _terms(affinity: Document) -> Iterator[Document]:
    """Its terms about pods."""
    for kind in ("podAffinity", "podAntiAffinity"):
        given = affinity.get(kind) or {}
        yield from given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for one in given.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield one.get("podAffinityTerm") or {}


def _crosses(term: Document) -> bool:
    """An empty selector is one of all namespaces."""
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
