"""What a killed test run leaves in memory is cleared by the next one, a server that runs on included."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkstate_tools import memory

STAND_IN = """\
import subprocess, sys
from pathlib import Path
from sparkstate_tools import memory
made = memory.folder("sparkstate-s3-", Path(sys.argv[1]))
(made / "data").mkdir()
(made / "data" / "object").write_bytes(bytes(1000))
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=made)
(made / memory.SERVER).write_text(str(server.pid))
print(made, server.pid, flush=True)
sys.stdin.read()
"""
REAL = """\
import sys
from pathlib import Path
from sparkstate_tools import memory
from sparkstate_tools.servers import s3server
memory.SHARED = Path(sys.argv[1])
with s3server.running() as server:
    print(server.folder, server.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    "program",
    [STAND_IN, pytest.param(REAL, marks=pytest.mark.s3)],
    ids=["a server in the folder", "an S3 server, which works in a folder below"],
)
def test_a_killed_process_leaves_nothing_beyond_the_next_folder(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        folder, server = one.stdout.readline().split()
        assert memory.clear(tmp_path) == [], "its process lives"
        one.send_signal(signal.SIGKILL)
    try:
        assert Path(folder).exists()
        assert alive(server), "the server outlives it"

        foreign = tmp_path / "sparkstate-of-somebody"
        foreign.mkdir()
        mine = memory.folder("sparkstate-s3-", tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([foreign, mine])
        deadline = time.monotonic() + 10
        while alive(server):
            assert time.monotonic() < deadline, "the server runs on"
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(server), signal.SIGKILL)


def test_a_process_with_the_number_of_a_server_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "sparkstate-s3-old"
    folder.mkdir()
    (folder / memory.OWNER).write_text('{"pid": 1, "started": -1}')
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd="/") as other:
        (folder / memory.SERVER).write_text(str(other.pid))
        assert memory.clear(tmp_path) == [folder]
        assert alive(str(other.pid))
        other.kill()
    assert not folder.exists()


def alive(pid: str) -> bool:
    """Whether it runs; a zombie that nobody waits for has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
