"""Each in a process of its own: pool and heaps are the whole process's."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys

import pytest

needs_glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")

IN_THE_DRIVER = """
import sys
from sparkstate.driver import __main__ as driver

def run(options, heard):
{body}

if {settled}:
    driver._run = run
    driver._last_word = lambda options, *said: print(*said) or 0
    driver.main(["--manifest=job.yaml", "--work-dir=."])
else:
    run(None, None)
"""
POOL = """
    import pyarrow as pa
    print("pool:", pa.default_memory_pool().backend_name)
"""
HEAPS = """
    import ctypes, threading
    at_once = threading.Barrier(12)
    def work():
        kept = [bytes(2000) for _ in range(1000)]
        at_once.wait()
    threads = [threading.Thread(target=work) for _ in range(12)]
    for each in threads: each.start()
    for each in threads: each.join()
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.fdopen.argtypes = [ctypes.c_int, ctypes.c_char_p]
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.malloc_info(0, libc.fdopen(1, b"w"))
    libc.fflush(None)
"""
LARGE = """
    import ctypes
    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Info
    freed = bytes(4 << 20)
    del freed
    before = libc.mallinfo2().hblkhd
    kept = bytes(1 << 20)
    print("outside of heaps:", libc.mallinfo2().hblkhd - before)
"""


def said(body: str, *, settled: bool = True) -> str:
    """What ``body`` prints in a driver, or in a process that is none."""
    script = IN_THE_DRIVER.format(body=body, settled=settled)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrow_in_the_driver_takes_memory_from_the_system_s_allocator() -> None:
    assert "pool: system" in said(POOL)


@needs_glibc
def test_threads_of_the_driver_share_two_heaps() -> None:
    assert len(re.findall("<heap nr=", said(HEAPS))) <= 2
    assert len(re.findall("<heap nr=", said(HEAPS, settled=False))) > 2


@needs_glibc
def test_large_blocks_of_the_driver_go_back_to_the_system_also_after_the_first() -> None:
    assert int(said(LARGE).split("outside of heaps:")[1].split()[0]) >= 1 << 20
    assert "outside of heaps: 0" in said(LARGE, settled=False)
