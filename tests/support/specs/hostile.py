"""Values of any shape, and pod templates that hold some of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["driver", "executor", "logs", "name", "memory", ""])
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), NAMES,
    st.sampled_from(["4GB", "1Gi", "-1", "1e400", "9" * 5000, "2m", "\u0664"]), st.text(max_size=5),
)  # fmt: skip
ANY = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


def mixed(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these fields, or with something else in their place, or something else itself."""
    return st.one_of(
        st.fixed_dictionaries({}, optional={name: shape | ANY for name, shape in fields.items()}), ANY
    )


RESOURCES = mixed(limits=mixed(memory=PLAIN, cpu=PLAIN), requests=mixed(memory=PLAIN))
ENTRIES = st.lists(mixed(name=NAMES, mountPath=NAMES, value=PLAIN), max_size=2)
CONTAINERS = st.lists(
    mixed(name=NAMES, resources=RESOURCES, env=ENTRIES, volumeMounts=ENTRIES, ports=ENTRIES), max_size=2
)
SPEC = mixed(
    containers=CONTAINERS,
    initContainers=CONTAINERS,
    volumes=ENTRIES,
    imagePullSecrets=ENTRIES,
    tolerations=st.lists(mixed(key=NAMES, operator=NAMES), max_size=2),
    terminationGracePeriodSeconds=PLAIN,
)
TEMPLATES = st.fixed_dictionaries(
    {}, optional={"metadata": mixed(labels=ANY, annotations=ANY), "spec": SPEC, "other": ANY}
)
