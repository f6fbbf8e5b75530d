"""``python -m sparkstate.compatibility``: the process of ``opening.opened``."""

from __future__ import annotations

import json
import os
import sys

import cloudpickle

from sparkstate import clock, errors
from sparkstate.compatibility import declaration, opening
from sparkstate.slots import server


def main() -> None:
    """Read a request, write the answer; the user's code may print meanwhile."""
    answers = os.dup(1)
    os.dup2(2, 1)
    python_path: list[str] = json.loads(sys.stdin.buffer.readline())
    sys.path[:0] = [entry for entry in python_path if entry not in sys.path]
    answer: object
    try:
        asked: opening.OpeningRequest = server.unpickled(sys.stdin.buffer.read())
        answer = declaration.of_operators(
            asked.specs, asked.key_space, asked.slots, asked.parameters, clock.SystemClock(), asked.backend
        )
    except errors.SparkstateError as error:
        answer = opening.Failure(error.reason, str(error))
    with os.fdopen(answers, "wb") as out:
        out.write(cloudpickle.dumps(answer))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of the user's code keep nobody waiting
