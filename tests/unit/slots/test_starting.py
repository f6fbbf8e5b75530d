"""Slot processes: begun before anything is known of them, told later, gone with whom they watch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkstate import errors
from sparkstate.local_state import folders
from sparkstate.slots import client, protocol, starting
from sparkstate.slots.starting import Identity, LocalSlots, Starting

KEY = "a-key-for-starting"


def slots_of(folder: Path) -> list[int]:
    """Slot processes whose log is in the folder; not what starts them, which has the same log for a moment."""
    slot = f"{sys.executable}\0-m\0sparkstate.slots".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_slot = (entry / "cmdline").read_bytes().startswith(slot)
            if is_slot and os.readlink(entry / "fd" / "2").startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_slots_are_begun_at_once_and_serve_when_they_are_told_who_they_are(tmp_path: Path) -> None:
    here = LocalSlots(tmp_path, 2)
    eventually(lambda: len(slots_of(tmp_path)) >= 2)
    begun = set(slots_of(tmp_path))
    addresses = here.start(7, KEY, ())
    assert [address.slot for address in addresses] == [0, 1]
    assert {address.pid for address in addresses} <= begun
    for address in addresses:
        assert Path(address.unix_path).parent.name == f"7-{address.slot}"
        client.SlotClient(address, KEY, socket.gethostname()).call(protocol.Stop(), protocol.Ok)
    eventually(lambda: not slots_of(tmp_path))
    assert not [path for path in tmp_path.iterdir() if folders.is_slot(path)]

    again = here.start(8, KEY, ())
    assert {address.pid for address in again}.isdisjoint(begun)
    for address in again:
        log = Path(os.readlink(f"/proc/{address.pid}/fd/2"))
        assert Path(address.unix_path).parent == log.parent / f"8-{address.slot}"
        os.kill(address.pid, signal.SIGKILL)


def test_a_slot_that_nobody_tells_anything_ends_with_who_began_it(tmp_path: Path) -> None:
    begin = "import sys, time, pathlib; from sparkstate.slots.starting import LocalSlots; "
    begin += "here = LocalSlots(pathlib.Path(sys.argv[1]), 1); print(flush=True); time.sleep(60)"
    beginner = subprocess.Popen([sys.executable, "-c", begin, str(tmp_path)], stdout=subprocess.PIPE)
    assert beginner.stdout is not None and beginner.stdout.readline()
    eventually(lambda: bool(slots_of(tmp_path)))
    beginner.kill()
    beginner.wait()
    beginner.stdout.close()
    eventually(lambda: not slots_of(tmp_path))
    assert (tmp_path / "slot-0.log").read_text() == ""


def test_a_slot_ends_with_whom_it_watches(tmp_path: Path) -> None:
    watched = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    identity = Identity(slot=3, incarnation=1, key=KEY, watched_pid=watched.pid, python_path=())
    address = Starting(tmp_path, 3).become(identity)
    watched.kill()
    watched.wait()
    eventually(lambda: not slots_of(tmp_path))
    assert not Path(address.unix_path).parent.exists()


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "1-0").write_text("in the way")
    identity = Identity(slot=0, incarnation=1, key=KEY, watched_pid=os.getpid(), python_path=())
    with pytest.raises(errors.SlotLost, match=r"(?s)slot 0 did not start.*FileExistsError"):
        Starting(tmp_path, 0).become(identity)


@pytest.mark.fault(
    broken="one of the slots beside the driver does not start",
    when="an incarnation starts",
    expected="the others are ended, told or not; the next incarnation's slots start",
)
@pytest.mark.fault_on("slots beside the driver")
def test_a_start_that_fails_leaves_no_slot(tmp_path: Path) -> None:
    here = LocalSlots(tmp_path, 3)
    (tmp_path / "1-1").mkdir()  # so it cannot make it
    with pytest.raises(errors.SlotLost, match="slot 1 did not start"):
        here.start(1, KEY, ())
    eventually(lambda: not slots_of(tmp_path))
    assert not (tmp_path / "1-0").exists()
    for address in here.start(2, KEY, ()):
        os.kill(address.pid, signal.SIGKILL)


def test_a_slot_that_is_too_late_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = LocalSlots(tmp_path, 1)
    eventually(lambda: bool(slots_of(tmp_path)))
    [pid] = slots_of(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(starting, "_TIMEOUT_S", 0.1)
    with pytest.raises(errors.SlotLost, match="slot 0 did not start"):
        here.start(1, KEY, ())
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: not slots_of(tmp_path))
