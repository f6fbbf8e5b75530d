"""A spec as leaves: the path of each given value, and the layer that gave it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JOB = "job"
BUILT_IN = "built-in"

OPAQUE = ("driverTemplate", "executorTemplate", "localStorage.volumeClaimTemplate")
"""Fields whose inside is Kubernetes' own: taken whole. Every other mapping is split into its fields or keys."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class GivenValue:
    """A value and the layer that gave it."""

    value: Any
    origin: str
    """The layer: ``job``, ``built-in``, or what the caller calls its defaults."""
    key: str = ""
    """The key of Flink's that gave it, if one did."""
    spelling: str = "configuration"
    """The map that holds the key: ``configuration`` or ``flinkConfiguration``."""

    @property
    def source(self) -> str:
        """The origin, and Flink's key in brackets, with its map where that is ``flinkConfiguration``."""
        if not self.key:
            return self.origin
        return f"{self.origin} ({'' if self.spelling == 'configuration' else f'{self.spelling}: '}{self.key})"


Leaves = Mapping[str, GivenValue]
"""By path below ``spec``."""


def join(path: str, name: str) -> str:
    """``path`` and one more name; names other than identifiers come in brackets."""
    return f"{path}.{name}".lstrip(".") if _IDENTIFIER.fullmatch(name) else f"{path}['{name}']"


def split(path: str) -> list[str]:
    """The names of a path made by ``join``."""
    head, bracket, rest = path.partition("['")
    return [*head.split("."), *([rest.removesuffix("']")] if bracket else [])]


def below(path: str, *above: str) -> bool:
    """Whether ``path`` is one of ``above``, or lies in one of them."""
    for one in above:  # noqa: SIM110 — a generator doubled the time of resolving a spec
        if path.startswith(one) and (len(path) == len(one) or path[len(one)] in ".["):
            return True
    return False


def leaves(spec: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of everything given. Lists are values."""
    for name, value in spec.items():
        where = join(path, name)
        if value is None:  # YAML's way to leave something empty, in a chart's values above all
            continue
        if isinstance(value, Mapping) and where not in OPAQUE:
            yield from leaves(value, where)
        else:
            yield where, value


def nested(given: Leaves) -> dict[str, Any]:
    """Leaves as a tree again."""
    tree: dict[str, Any] = {}
    for path, leaf in given.items():
        *parents, last = split(path)
        node = tree
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = leaf.value
    return tree
