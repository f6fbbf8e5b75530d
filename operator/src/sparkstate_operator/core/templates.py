"""Judges the user's pod templates before the operator merges them: the fields that it reads must have the right shape.

The CRD's schema lets everything through there. A template that could not be read once froze its job, failover and
deletion included. The API server judges all other fields when the pod is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from sparkstate_operator.core.problems import Problem
from sparkstate_operator.core.settings import Resolved
from sparkstate_spec import quantities

Role = Literal["driver", "executor"]
ROLES: tuple[Role, ...] = ("driver", "executor")
COUNTED = ("memory", "ephemeral-storage")
"""Resources that the operator compares with its own sum."""
ADJUSTABLE = ("tmp", "work")
"""Volumes of the operator's that a template may say more of, such as a size."""
_LISTS = ("containers", "initContainers", "volumes", "imagePullSecrets")
_LISTS_OF_CONTAINER = ("env", "volumeMounts", "ports")


def of(resolved: Resolved, role: Role) -> dict[str, Any]:
    """The role's template without nulls. To Kubernetes too, a field that is null is not set."""
    found = _without_nulls(resolved.get(f"{role}Template") or {})
    return found if isinstance(found, dict) else {}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list | tuple) else value


def container_resources(resolved: Resolved, role: Role) -> Mapping[str, Any]:
    """``resources`` of the role's container in its template."""
    found: Mapping[str, Any] = _own(of(resolved, role), role).get("resources", {})
    return found


def _own(template: Mapping[str, Any], role: Role) -> Mapping[str, Any]:
    containers = template.get("spec", {}).get("containers", ())
    return next((one for one in containers if one.get("name") == role), {})


def quantity_bytes(value: Any) -> int:
    """Bytes of a quantity as pod specs have it: also a number, a sign, an exponent. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{str(value)[:80]!r} is not a quantity; write it as 512Mi or 1Gi")
    text = str(value)
    size = math.ceil(quantities.amount(text[1:] if text.startswith(("+", "-")) else text))
    return -size if text.startswith("-") else size


def problems(resolved: Resolved) -> list[Problem]:
    """Everything of both templates that the operator cannot read, by field, value and remedy."""
    found = [
        problem for role in ROLES for problem in judged(of(resolved, role), f"spec.{role}Template", role)
    ]
    return [*found, *(problem for role in ROLES for problem in _clashes(resolved, role))]


def own_volumes(resolved: Resolved, role: Role) -> dict[str, str]:
    """The kinds of the volumes that the operator puts into the role's pod, by name."""
    claim = resolved.get("localStorage.volumeClaimTemplate")
    found = {"tmp": "emptyDir", "work": "ephemeral" if claim else "emptyDir", "token": "projected"}
    if role == "driver":
        found["job"] = "configMap"
    if resolved.get("configMapRef"):
        found["code"] = "configMap"
    return found


def _clashes(resolved: Resolved, role: Role) -> Iterator[Problem]:
    """Volumes of the user's that have the name of one of the operator's. For ``tmp`` and ``work`` a template may add a
    size; the others belong to the operator alone."""
    spec = _mapping(of(resolved, role), "spec")
    ours = own_volumes(resolved, role)
    for position, volume in enumerate(_list(spec, "volumes")):
        name = volume.get("name")
        kind = ours.get(name) if isinstance(name, str) else None
        if kind is None or (name in ADJUSTABLE and volume.keys() <= {"name", kind}):
            continue
        at = f"spec.{role}Template.spec.volumes[{position}].name"
        yield Problem(at, "is the name of one of the operator's own volumes; rename yours", _shown(name))


def judged(template: Mapping[str, Any], at: str, own: str) -> Iterator[Problem]:
    """The same of one template, which stands ``at`` a field; ``own`` names the container that the operator adds to."""
    yield from _object(template, "metadata", at)
    for name in ("labels", "annotations"):
        yield from _object(_mapping(template, "metadata"), name, f"{at}.metadata")
    yield from _object(template, "spec", at)
    spec = _mapping(template, "spec")
    at = f"{at}.spec"
    yield from _object(spec, "securityContext", at)
    for name in _LISTS:
        yield from _named(spec, name, at)
    yield from _entries(spec, "tolerations", at, key="key", needed=False)
    for name in ("containers", "initContainers"):
        for position, container in enumerate(_list(spec, name)):
            yield from _container(container, f"{at}.{name}[{position}]", own)
    yield from _grace(spec, at)


def _container(container: Mapping[str, Any], at: str, own: str) -> Iterator[Problem]:
    for name in _LISTS_OF_CONTAINER:
        key = {"volumeMounts": "mountPath"}.get(name, "name")
        yield from _entries(container, name, at, key=key, needed=name != "ports")
    yield from _object(container, "resources", at)
    for bound in ("limits", "requests"):
        resources = _mapping(container, "resources")
        yield from _object(resources, bound, f"{at}.resources")
        if container.get("name") != own:
            continue
        for name in COUNTED:
            value = _mapping(resources, bound).get(name)
            if value is not None:
                yield from _quantity(value, f"{at}.resources.{bound}.{name}")


def _quantity(value: Any, at: str) -> Iterator[Problem]:
    try:
        quantity_bytes(value)
    except ValueError:
        yield Problem(at, "is not a quantity; write it as 512Mi or 4Gi", _shown(value))


def _grace(spec: Mapping[str, Any], at: str) -> Iterator[Problem]:
    name = "terminationGracePeriodSeconds"
    value = spec.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield Problem(f"{at}.{name}", "must be a whole number of seconds, 0 or more", _shown(value))


def _object(parent: Mapping[str, Any], name: str, at: str) -> Iterator[Problem]:
    value = parent.get(name, {})
    if not isinstance(value, Mapping):
        yield Problem(f"{at}.{name}", "must be an object (name: value pairs)", _shown(value))


def _named(parent: Mapping[str, Any], name: str, at: str) -> Iterator[Problem]:
    yield from _entries(parent, name, at, key="name", needed=True)


def _entries(parent: Mapping[str, Any], name: str, at: str, *, key: str, needed: bool) -> Iterator[Problem]:
    value = parent.get(name, [])
    if not isinstance(value, list):
        yield Problem(f"{at}.{name}", "must be a list", _shown(value))
        return
    for position, entry in enumerate(value):
        where = f"{at}.{name}[{position}]"
        if not isinstance(entry, Mapping):
            yield Problem(where, f"must be an object with a {key}", _shown(entry))
        elif key not in entry:
            if needed:
                yield Problem(f"{where}.{key}", "is missing; entries are merged by it")
        elif not isinstance(entry[key], str):
            yield Problem(f"{where}.{key}", "must be a string", _shown(entry[key]))


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parent.get(name, {})
    return value if isinstance(value, Mapping) else {}


def _list(parent: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = parent.get(name, [])
    return [one if isinstance(one, Mapping) else {} for one in value] if isinstance(value, list) else []


def _shown(value: Any) -> str:
    """A plain value as it is, and only the type of a larger one, which may hold anything, secrets included."""
    if value is None or isinstance(value, str | int | float):
        return repr(value)[:80]
    return "a list" if isinstance(value, list) else "an object"
