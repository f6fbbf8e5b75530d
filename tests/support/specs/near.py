"""Specs near one that runs: a few fields have another value, at the edge of what their schema accepts or beyond it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from support.specs import accepted, hostile

from sparkstate_spec import fields, flink_tables, memory

RUNS: Mapping[str, Any] = {
    "image": "example/job:1",
    "pythonFile": "/app/job.py",
    "deployment": "local",
    "state": "running",
    "upgradeMode": "last-state",
    "checkpointing": {"storage": "s3://bucket/state"},
}
_CODE = ("pythonFile", "module", "configMapRef")

TEXTS = st.sampled_from(
    ["", "0", "-1", "512m", "1e9", "9" * 30, "9" * 1000, "true", "\u0664", "\x00", "a\u2028b", "\U0001f600"]
) | st.text(max_size=8)
KEYS = (
    st.sampled_from([memory.overhead_key(process) for process in memory.PROCESSES])
    | st.sampled_from(
        ["", "a.b", "a'b", "a['b']", "a.b']", "x\n", "spark.ui.port", *flink_tables.OPTION_KEYS]
    )
    | st.text(max_size=6)
)
OF_FLINK: Mapping[str, st.SearchStrategy[str]] = {
    "duration": st.sampled_from(["0", "0 ms", "7", "10 s", "1 d", "9" * 12 + " d", "9" * 900 + " d"]),
    "memory": st.sampled_from(["0", "0mb", "9", "64mb", "1 gb", "9" * 12 + " tb", "9" * 900]),
    "boolean": st.sampled_from(["true", "false"]),
    "integer": st.sampled_from(["0", "1", "3", "128", "70000", "999999999"]),
    "number": st.sampled_from(["0", "0.0", "0.5", "1", "3", "999999999.999999999"]),
}
"""Values of each kind as the rules on Flink's keys accept them; the fields that they mean may have other bounds."""


def of_key(key: str) -> st.SearchStrategy[str]:
    """Values of one of Flink's keys."""
    line = fields.BY_KEY.get(key)
    if line is None:
        return st.sampled_from(accepted.VALUES) | OF_FLINK["integer"]
    if line.words:
        return st.sampled_from(sorted(line.words))
    return OF_FLINK.get(line.kind, accepted.LOCATIONS | TEXTS)


CONFIGURATION = st.lists(
    st.sampled_from(sorted({*fields.BY_KEY, *flink_tables.understood()})), max_size=3, unique=True
).flatmap(lambda keys: st.fixed_dictionaries({key: of_key(key) for key in keys}))


def sections(keys: Mapping[str, str]) -> dict[str, Any]:
    """The keys as sections within sections, as ``flinkConfiguration`` may have them. A key that is the beginning of
    another one stays whole, and so does the other."""
    tree: dict[str, Any] = {}
    for key, text in keys.items():
        if any(key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in keys):
            tree[key] = text
            continue
        *parents, last = key.split(".")
        node = tree
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = text
    return tree


def values(node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Anything that the schema's node accepts, up to its edges."""
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return hostile.TEMPLATES
    match node["type"]:
        case "object" if "properties" in node:
            children = {name: values(child) for name, child in node["properties"].items()}
            required = {name: children.pop(name) for name in node.get("required", ())}
            return st.fixed_dictionaries(required, optional=children)
        case "object":
            return st.dictionaries(KEYS, TEXTS, max_size=3)
        case "array":
            return st.lists(values(node["items"]), min_size=node.get("minItems", 0), max_size=3)
        case "boolean":
            return st.sampled_from(node.get("enum", [True, False]))
        case "integer":
            low, high = node["minimum"], node["maximum"]
            return st.integers(low, high) | st.sampled_from([low, high])
        case "number":
            return st.floats(node["minimum"], node["maximum"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    return texts(node["pattern"], node["maxLength"]) if "pattern" in node else TEXTS


def texts(pattern: str, longest: int) -> st.SearchStrategy[str]:
    """Texts that match a pattern as the API server reads it: ``$`` is the end, and not the place before a line feed."""
    exact = re.compile(re.sub(r"\$$", r"\\Z", pattern), re.ASCII)
    fits = st.from_regex(exact).filter(lambda text: len(text) <= longest)
    return fits | accepted.matching(pattern)


def specs(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A job that runs, with up to four top fields changed; each change fits the ``schema`` of the spec."""
    changes = {name: values(child) for name, child in schema["properties"].items()}
    changes["configuration"] = CONFIGURATION
    changes["flinkConfiguration"] = CONFIGURATION.map(sections) | hostile.TEMPLATES
    likely = [*["configuration"] * 10, *["flinkConfiguration"] * 5]
    names = st.lists(st.sampled_from([*sorted(changes), *likely]), max_size=4, unique=True)
    chosen = names.flatmap(lambda some: st.fixed_dictionaries({name: changes[name] for name in some}))
    return chosen.map(changed)


def changed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The job that runs with these fields, which may replace its code and its storage."""
    spec = {**RUNS, **given}
    if any(name in given for name in _CODE) and "pythonFile" not in given:
        del spec["pythonFile"]
    spec["checkpointing"] = {**RUNS["checkpointing"], **given.get("checkpointing", {})}
    return spec


@st.composite
def beyond(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same with values of any shape in places that the schema has for others, or does not have at all."""
    spec = draw(specs(schema))
    for _ in range(draw(st.integers(1, 3))):
        node, at = spec, schema["properties"]
        while True:
            name = draw(st.sampled_from([*sorted(at), "other"]))
            below = at.get(name, {}).get("properties")
            if below is None or draw(st.booleans()):
                node[name] = draw(hostile.ANY)
                break
            if not isinstance(node.get(name), dict):
                node[name] = {}
            node, at = node[name], below
    return spec
