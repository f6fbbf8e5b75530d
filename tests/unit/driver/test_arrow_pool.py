from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import pyarrow as pa
from sparkstate.driver import __main__ as driver

driver._run = lambda options: print("in the driver:", pa.default_memory_pool().backend_name)
driver._last_word = lambda options, *said: 0
driver.main(["--manifest=job.yaml", "--work-dir=."])
"""


def test_arrow_in_the_driver_takes_memory_from_the_system_s_allocator() -> None:
    """In a process of its own: the pool is the whole process's."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert "in the driver: system" in done.stdout, done.stderr
