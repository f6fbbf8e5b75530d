"""``sparkstate check`` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sparkstate_tools.drivers import driving


class Checked:
    """One run of the command, over; ``environment`` is added to this process's."""

    def __init__(
        self,
        folder: Path,
        document: Mapping[str, Any],
        *arguments: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        path = folder / "check.yaml"
        path.write_text(yaml.safe_dump(dict(document)))
        done = subprocess.run(
            [sys.executable, "-m", "sparkstate.cli.main", "check", str(path), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=driving.PATIENCE_S,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **(environment or {})},
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def document(self) -> dict[str, Any]:
        """Standard output, which is JSON alone: the job's own prints are elsewhere."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    def outcomes(self) -> dict[str, str]:
        """By operator and state."""
        return {f"{one['operator']}/{one['state']}": one["outcome"] for one in self.document["states"]}
