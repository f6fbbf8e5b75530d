"""The reference, made from the code: ``openapi.json``, ``rest-api.md`` and ``metrics.md`` in ``docs/``.

``python -m sparkstate.control.openapi docs`` writes them; a test fails when they are stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.control import app, metrics, port, reference

_PROBES: Final = {
    "/livez": "Epochs make progress, or need not",
    "/readyz": "The job runs and can serve requests",
}


class _NoJob:
    """Stands where a job would: the reference is made without one, and nothing may ask it."""

    def __getattr__(self, name: str) -> Any:
        raise errors.SparkstateError(
            f"the reference was made without a job, and something asked for its {name}"
        )


def schema() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    job: port.JobControl = _NoJob()
    api = app.create_api(job, metrics.JobMetrics(job, clocks.SystemClock()), str)
    document = api.openapi()
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "The job's token."}
    }
    document["security"] = [{"token": []}]
    for path, summary in _PROBES.items():
        document["paths"][path] = {"get": _probe(summary)}
    return document


def _probe(summary: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "operationId": "probe_" + summary.split(maxsplit=1)[0].lower(),
        "security": [],
        "responses": {"200": {"description": "Yes. No content."}, "503": {"description": "No. No content."}},
    }


def render() -> dict[str, str]:
    """File name → content."""
    document = schema()
    return {
        "openapi.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        "rest-api.md": "\n".join(reference.rest_api(document)) + "\n",
        "metrics.md": "\n".join(reference.metrics_table()) + "\n",
    }


def write(directory: Path) -> Iterator[Path]:
    """Write the files, yielding each."""
    for name, content in render().items():
        target = directory / name
        target.write_text(content, encoding="utf-8")
        yield target


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(written)
