"""Start a program that ends when its parent ends, however the parent ends.

``python -m sparkstate.runner.leash PARENT_PID PROGRAM ARGUMENT…`` asks the kernel (``PR_SET_PDEATHSIG``) to
kill this process when the thread that started it dies, and then becomes the program; the request outlives
``exec``. So a runner that is killed with SIGKILL leaves no driver behind: the driver's end ends its JVM and its slots,
which watch it. On systems without ``prctl`` the program is started without this guarantee.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def tie_to_parent(parent_pid: int) -> None:
    """Have this process killed with its parent; ends at once if the parent is gone already."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:  # it died before the request was made, so no signal will come
        sys.exit(1)


def main(arguments: list[str]) -> None:
    """Tie this process to the parent named first and become the program that follows."""
    tie_to_parent(int(arguments[0]))
    os.execv(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
