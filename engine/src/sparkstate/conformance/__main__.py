"""The process of a trial: ``python -m sparkstate.conformance FOLDER`` (see ``trial``)."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sparkstate import errors
from sparkstate.backends.custom import loading
from sparkstate.backends.custom.factory import BackendFactory
from sparkstate.conformance import chapters
from sparkstate.conformance.trial import TrialFolder
from sparkstate.settings import StateBackendSettings


def main(path: Path) -> None:
    """Answer the request in the folder. A crash leaves no verdict."""
    folder = TrialFolder(path)
    request = json.loads(folder.request.read_text("utf-8"))
    signal.alarm(int(request["budget_s"]) + 5)  # its action is the end of the process
    sys.path[:0] = [entry for entry in request["python_path"] if entry not in sys.path]
    backend = StateBackendSettings(
        type="custom",
        class_name=request["class_name"],
        options=request["options"],
        managed_memory_bytes=request["memory_bytes"],
    )
    try:
        verdict = _judged(backend, folder)
    except errors.SparkstateError as error:
        verdict = {"reason": error.reason, "message": str(error)}
    half = folder.verdict.with_suffix(".half")
    half.write_text(json.dumps(verdict), "utf-8")
    half.rename(folder.verdict)


def _judged(backend: StateBackendSettings, folder: TrialFolder) -> dict[str, Any]:
    def make(directory: Path) -> BackendFactory:
        return loading.make_factory(backend, directory)

    make(folder.stores / "first").close()
    failure = chapters.first_failure(
        make, folder.stores / "kit", lambda name: folder.progress.write_text(name, "utf-8")
    )
    if failure is not None:
        raise loading.refused(
            backend.class_name,
            f"it fails the conformance kit at {failure}; correct the class: `sparkstate check-backend "
            f"{backend.class_name}` runs the kit again",
        )
    return {"chapters": {chapter.name: len(chapter.checks) for chapter in chapters.CHAPTERS}}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: that would wait for threads that the backend left behind.
    os._exit(0)
