"""Chromium for the page's tests: the machine's own, or Debian's package."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright import sync_api

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # containers and root have no user namespaces to build one from
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
COMMANDS = "apt-get update && apt-get install --yes --no-install-recommends chromium"


class NoBrowser(Exception):
    """There is no Chromium; the message says how to get one."""


def chromium() -> str:
    """Path of a Chromium: ``SPARKSTATE_CHROMIUM``, one on the PATH, or Debian's (installed, if root)."""
    named = os.environ.get("SPARKSTATE_CHROMIUM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NoBrowser(
                f"SPARKSTATE_CHROMIUM is {named!r}, which is not a program; name one, or unset it"
            )
        return found
    return _on_path() or _install()


@contextlib.contextmanager
def launched(executable: str) -> Iterator[sync_api.Browser]:
    """A headless browser with a profile of its own, ended afterwards."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def _on_path() -> str | None:
    return next((found for found in map(shutil.which, NAMES) if found), None)


def _install() -> str:
    if not _can_install():
        raise NoBrowser(
            f"no Chromium ({', '.join(NAMES)}) on the PATH and none can be installed here; "
            f"on Debian run as root: {COMMANDS}\n"
            "elsewhere install Chromium or Chrome and name it in SPARKSTATE_CHROMIUM"
        )
    print("no Chromium found: installing Debian's package", file=sys.stderr, flush=True)
    done = subprocess.run(
        ["sh", "-c", COMMANDS],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=sys.stderr.fileno(),
        timeout=600,
        check=False,
    )
    found = _on_path()
    if done.returncode or found is None:
        raise NoBrowser(f"installing Chromium failed with exit code {done.returncode}; run: {COMMANDS}")
    return found


def _can_install() -> bool:
    try:
        distribution = platform.freedesktop_os_release().get("ID")
    except OSError:
        return False
    return distribution == "debian" and os.geteuid() == 0 and Path("/usr/bin/apt-get").exists()
