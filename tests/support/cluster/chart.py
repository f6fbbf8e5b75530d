"""What the chart renders: helm, without a cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from support.repository import tree

from sparkstate_tools.kubernetes import build
from sparkstate_tools.kubernetes.cluster import CommandFailed

CHART = tree.ROOT / "charts" / "sparkstate-operator"


def helm(*arguments: str | Path) -> str:
    """What helm says; no cluster is asked."""
    command = [str(build.binary("helm")), *map(str, arguments)]
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise CommandFailed(done.stderr)
    return done.stdout


class Chart:
    """Renders the chart as release ``ours`` in namespace ``ops``."""

    def __init__(self, folder: Path) -> None:
        self._values = folder / "values.yaml"

    def render(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """All objects, hooks too."""
        self._values.write_text(yaml.safe_dump(values))
        more = ("-f", self._values, "--kube-version", "1.36.3")
        text = helm("template", "ours", CHART, "-n", "ops", *more)
        return [document for document in yaml.safe_load_all(text) if document]

    def one(
        self, kind: str, values: dict[str, Any], name: str = "ours-sparkstate-operator"
    ) -> dict[str, Any]:
        """The object of that kind and name."""
        (found,) = [
            each for each in self.render(values) if (each["kind"], each["metadata"]["name"]) == (kind, name)
        ]
        return found

    def operator(self, values: dict[str, Any]) -> dict[str, Any]:
        """The operator's container."""
        return dict(self.one("Deployment", values)["spec"]["template"]["spec"]["containers"][0])
