"""Resolves a job's spec: the job's value wins over the Helm value, and that over the built-in one. It keeps the origin
of each field, and checks everything that no single layer shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sparkstate_operator.core import checks
from sparkstate_operator.core.problems import Problem, raise_if_any
from sparkstate_spec import built_in, executors, key_space, layers
from sparkstate_spec.given import JOB, Leaves, nested
from sparkstate_spec.problems import beyond_shards

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class KeySpace:
    """The numbers that a job's first checkpoint has fixed for ever. None: not known."""

    shards: int
    max_parallelism: int | None = None


@dataclass(frozen=True)
class Resolved:
    """``spec`` holds every field that counts, shaped as a job's spec; ``origins`` says by path who gave it."""

    spec: Spec
    origins: Mapping[str, str]

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path below ``spec``; ``default`` where there is none."""
        node: Any = self.spec
        for name in path.split("."):
            if not isinstance(node, Mapping) or name not in node:
                return default
            node = node[name]
        return node

    @property
    def backend(self) -> str:
        """``hashmap``, ``rocksdb`` or ``custom``."""
        return str(self.get("stateBackend.type", built_in.value("stateBackend.type")))

    @property
    def slots(self) -> int:
        """Slots of the whole job."""
        return int(self.get("slots"))

    @property
    def executors(self) -> int:
        """Executor pods; 0 with deployment ``local``."""
        if self.get("deployment") != "cluster":
            return 0
        return executors.count(self.slots, int(self.get("slotsPerExecutor")))


def resolve(
    spec: Spec,
    defaults: Spec | None = None,
    fixed: Callable[[Resolved], KeySpace | None] = lambda _: None,
    begins_empty: Callable[[Resolved], bool] = lambda _: False,
) -> Resolved:
    """Decide every field. ``spec`` has passed the CRD's schema and rules, ``defaults`` (the chart's
    ``defaults.*``, shaped as a spec) ``check_defaults``.

    ``fixed`` gives the key space of the state that a job with these settings goes on from; None: it has no state, or
    leaves it. ``begins_empty`` says whether it is certain that its next attempt begins without state. Raises
    ``SpecInvalid`` with all findings.
    """
    raise_if_any(checks.own(spec))
    given = layers.merge(layers.fold(spec, JOB), layers.fold(defaults or {}, checks.HELM))
    filled = built_in.fill(given)
    resolved = Resolved(
        MappingProxyType(nested(filled)),
        MappingProxyType({path: leaf.origin for path, leaf in filled.items()}),
    )
    raise_if_any(checks.shaped(filled))
    beyond = beyond_default(resolved) if begins_empty(resolved) else []
    raise_if_any([*checks.merged(filled), *_fixed(filled, fixed(resolved)), *beyond])
    return resolved


def beyond_default(resolved: Resolved) -> list[Problem]:
    """The finding that a job with these settings cannot begin without state: it would have fewer key groups than
    shards. State brings its own number of them."""
    shards = resolved.get("shards")
    found = key_space.beyond_default(resolved.slots, resolved.get("maxParallelism"), shards)
    return [Problem(found.path, found.message, f"{shards}")] if found is not None else []


def _fixed(given: Leaves, fixed: KeySpace | None) -> list[Problem]:
    if fixed is None:
        return []
    found = [
        Problem(
            f"spec.{path}", f"was fixed as {value} by the job's state; leave it out or give that", f"{told}"
        )
        for path, value in (("maxParallelism", fixed.max_parallelism), ("shards", fixed.shards))
        if value is not None and path in given and (told := given[path].value) != value
    ]
    if given["slots"].value > fixed.shards:
        found.append(Problem("spec.slots", beyond_shards(fixed.shards), f"{given['slots'].value}"))
    return found


def check_defaults(defaults: Spec) -> None:
    """Judge the chart's ``defaults`` by themselves, once at the operator's start. Raises ``SpecInvalid``."""
    raise_if_any(checks.defaults(defaults))
