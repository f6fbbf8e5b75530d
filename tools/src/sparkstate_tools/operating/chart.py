"""The operator as a user installs it: ``helm install`` of the chart, with the images of this checkout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sparkstate_tools.checkout import ROOT
from sparkstate_tools.kubernetes.cluster import Cluster

CHART = ROOT / "charts" / "sparkstate-operator"
NAMESPACE = "sparkstate-system"
RELEASE = "sparkstate"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""Label of a namespace."""
# The images lie on the nodes under the names that containerd gives to short ones. Tests look into the status more
# often than people.
VALUES: dict[str, Any] = {
    "global": {"imageRegistry": "docker.io"},
    "extraArgs": ["--progress-seconds=2"],
}


@contextlib.contextmanager
def installed(
    cluster: Cluster, folder: Path, beside: Sequence[Mapping[str, Any]] = (), **more: Any
) -> Iterator[None]:
    """Installs it into a namespace with Pod Security "restricted", and uninstalls it afterwards. ``beside``: objects
    that are in that namespace first; ``more``: values of the chart beside ``VALUES``."""
    labels = dict(RESTRICTED)
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}, *beside
    )
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump({**VALUES, **more}))
    chosen: list[str | Path] = ["-n", NAMESPACE, "-f", values, "--wait", "--timeout=300s"]
    cluster.helm("install", RELEASE, CHART, *chosen)
    try:
        yield
    finally:
        cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--timeout=180s")
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
