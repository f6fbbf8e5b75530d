"""Whether a pod that a ResourceQuota refuses would fit once other pods are gone.

A dry run counts the new pod on top of those that it replaces. An upgrade stops them first, so their share of the quota
is free when the new pod is made. A quota with scopes counts only the pods that meet all of them; others free nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparkstate_operator.core import pod_usage
from sparkstate_spec import quantities

_REFUSAL = re.compile(
    r"exceeded quota: ([^,]+), requested: (\S+), used: (\S+), limited: (\S+?)(?: \([0-9]+\))?$", re.MULTILINE
)
"""The words of the API server's admission, with resources as ``name=quantity`` and commas between them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A condition on the pods that a quota counts."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


def named(refusal: str) -> str:
    """The quota that refuses; empty for any other refusal."""
    match = _REFUSAL.search(refusal)
    return match[1] if match is not None else ""


def scopes(spec: Mapping[str, Any]) -> tuple[Scope, ...]:
    """Of a quota: those without an operator mean that it exists."""
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return (
        *(Scope(each) for each in spec.get("scopes") or ()),
        *(Scope(one["scopeName"], one["operator"], tuple(one.get("values") or ())) for one in selected),
    )


def counts(given: Iterable[Scope], pod: pod_usage.PodUsage) -> bool:
    """Whether a quota with these scopes counts the pod. No pod meets a scope that is not known here."""
    return all(_SCOPES.get(scope.name, _is_unknown)(scope, pod) for scope in given)


def _has_priority(scope: Scope, pod: pod_usage.PodUsage) -> bool:
    """Without a class a pod is in no set of them, as labels are: ``NotIn`` then holds."""
    given = pod.priority_class
    match scope.operator:
        case "Exists":
            return bool(given)
        case "DoesNotExist":
            return not given
        case "In":
            return given in scope.values
        case "NotIn":
            return given not in scope.values
    return False


def _is_unknown(_: Scope, _pod: pod_usage.PodUsage) -> bool:
    return False


_SCOPES: Mapping[str, Callable[[Scope, pod_usage.PodUsage], bool]] = {
    "Terminating": lambda _, pod: pod.terminating,
    "NotTerminating": lambda _, pod: not pod.terminating,
    "BestEffort": lambda _, pod: pod.best_effort,
    "NotBestEffort": lambda _, pod: not pod.best_effort,
    "PriorityClass": _has_priority,
    "CrossNamespacePodAffinity": lambda _, pod: pod.crosses_namespaces,
}


def fits_after(refusal: str, gone: Iterable[pod_usage.PodUsage], given: Iterable[Scope] = ()) -> bool:
    """Whether a refusal is one by a quota, with the scopes ``given``, that has room when these pods are gone. False for
    any other refusal."""
    match = _REFUSAL.search(refusal)
    if match is None:
        return False
    scopes_ = tuple(given)
    try:
        requested, used, limited = (_quantities(text) for text in match.groups()[1:])
        free: pod_usage.Sums = {}
        for pod in gone:
            if counts(scopes_, pod):
                pod_usage.add(free, pod.sums())
        return all(
            requested[each] + max(used[each] - free.get(each, Fraction(0)), Fraction(0)) <= limited[each]
            for each in requested
        )
    except (ValueError, KeyError):
        return False


def _quantities(text: str) -> pod_usage.Sums:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {each: quantities.amount(value) for each, _, value in pairs}
