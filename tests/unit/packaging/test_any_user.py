"""A container's user whom the image does not know gets a name; that Spark runs with it is shown in the image itself
(``make images ARGS=--check``, ``tests/e2e/test_any_user.py``)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENTRY = ROOT / "packaging" / "entry"
NAMES = "/tmp/.sparkstate-passwd"
KNOWN, UNKNOWN = "65534", "1000680000"


def ran(user: str) -> str:
    """What lies in the second file of names after a container's start under that user, with a ``/tmp`` of its own."""
    script = f"""set -e
mkdir -m 0755 /run/entry-{os.getpid()} && trap 'rmdir /run/entry-{os.getpid()}' EXIT
mount -t tmpfs -o mode=0755 tmpfs /run/entry-{os.getpid()}
cp "$1" /run/entry-{os.getpid()}/entry
mount -t tmpfs -o mode=1777 tmpfs /tmp
cd /
setpriv --reuid "$2" --regid 0 --clear-groups sh /run/entry-{os.getpid()}/entry echo started
[ ! -e {NAMES} ] || cat {NAMES}
umount /run/entry-{os.getpid()}
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(ENTRY), user],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode and ("unshare failed" in done.stderr or "permission" in done.stderr.lower()):
        pytest.skip(f"cannot make a mount namespace here ({done.stderr.strip()}); run as root")
    assert done.returncode == 0, done.stderr
    started, _, names = done.stdout.partition("\n")
    assert started == "started"
    return names


def test_a_user_without_a_name_gets_one() -> None:
    assert ran(UNKNOWN) == f"sparkstate:x:{UNKNOWN}:0::/var/lib/sparkstate:/usr/sbin/nologin\n"


def test_a_user_that_has_a_name_keeps_it() -> None:
    assert ran(KNOWN) == ""


def test_the_image_asks_for_names_where_its_entry_writes_them_and_lets_group_0_into_the_home() -> None:
    text = re.sub(r" *\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    assert f"ln -s {NAMES} /var/lib/extrausers/passwd" in text
    assert (
        "libnss-extrausers" in text and "'s/^passwd:.*/passwd: files extrausers/' /etc/nsswitch.conf" in text
    )
    assert "install -d -o 185 -g 0 -m 0770 /var/lib/sparkstate" in text
    assert f"> {NAMES}" in ENTRY.read_text()
