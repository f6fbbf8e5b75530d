"""The process of `standin_drivers.py` as `operator_drivers.py` sees it."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from sparkstate_tools.processes import free_port

PROGRAM = Path(__file__).with_name("standin_drivers.py")


class StandIns:
    """The process with all drivers."""

    def __init__(self) -> None:
        self.port = free_port()
        self.posted: dict[str, float] = {}
        self._answers: queue.Queue[int] = queue.Queue()
        self._ready = threading.Event()
        command = [sys.executable, str(PROGRAM), str(self.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._ready.wait(20):
            raise RuntimeError("the stand-in drivers do not start")

    def tell(self, **line: Any) -> None:
        with self._writing:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()

    def polls(self) -> int:
        self.tell(count=True)
        return self._answers.get(timeout=60)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)
            if "ready" in found:
                self._ready.set()
            elif "polls" in found:
                self._answers.put(found["polls"])
            elif found["posted"] == "/v1/savepoints":
                self.posted.setdefault(found["uid"], found["at"])

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)
