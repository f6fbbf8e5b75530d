"""Commands as the operator's Jobs run them: one JSON line, and a termination message."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkstate.cli import main


class Program:
    """Runs a command as a Job does and reads what it leaves."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._word = folder / "word"
        self._capsys = capsys
        self._word.write_text("")
        self.code = 0

    def __call__(self, *words: str) -> dict[str, Any]:
        self._word.write_text("")
        self._capsys.readouterr()
        self.code = main.main([*words, "--json", "--termination-log", str(self._word)])
        (line,) = self._capsys.readouterr().out.splitlines()
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def word(self) -> dict[str, Any]:
        """The termination message."""
        found: dict[str, Any] = json.loads(self._word.read_text())
        return found


def manifest_of(folder: Path, place: str) -> str:
    path = folder / "job.yaml"
    spec: dict[str, Any] = {"pythonFile": "job.py", "stateBackend": {"type": "hashmap"}}
    spec["checkpointing"] = {"storage": place}
    if place.startswith("s3:"):
        endpoint, region = os.environ["SPARKSTATE_S3_ENDPOINT"], os.environ["SPARKSTATE_S3_REGION"]
        spec["s3"] = {"endpoint": endpoint, "region": region, "pathStyle": True}
    document = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "orders"},
        "spec": spec,
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)
