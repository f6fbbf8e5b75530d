"""sparkstate: writes the manifest of the load and becomes the driver; ``function`` names one of the job's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sparkstate.operators import compiled

PARAMS = (
    "load",
    "input",
    "slots",
    "key",
    "value",
    "time",
    "gap_ms",
    "delay_ms",
    "function",
    "answers",
)
"""What the job needs of the words."""
JOB = Path(__file__).with_name("sparkstate_job.py")


def main() -> None:
    """Never returns."""
    task = dict(word.split("=", 1) for word in sys.argv[1:])
    scratch = Path(task["scratch"])
    params = {name: task[name] for name in PARAMS if name in task}
    document = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "bench"},
        "spec": {
            "pythonFile": str(JOB),
            "params": params,
            "slots": int(task["slots"]),
            "stateBackend": {"type": task["backend"]},
            "managedMemoryPerSlot": f"{task['managed_mib']}Mi",
            "trigger": {"availableNow": True},
            "checkpointing": {
                "interval": f"{task['checkpoint_s']}s",
                "storage": str(scratch / "checkpoints"),
            },
            "driver": {"memory": "2Gi"},
        },
    }
    manifest = scratch / "job.json"
    manifest.write_text(json.dumps(document))  # JSON is YAML
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ[compiled.VARIABLE] = "0"  # whatever is installed here, the path that every installation has
    command = ["-m", "sparkstate.driver", "--manifest", str(manifest), "--work-dir", str(scratch / "w")]
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
