"""``make compiled``: builds ``compiled/``, the record path in C, and installs it into the checkout's ``.venv``.

    make test-compiled                      the same, then the tests of the operators on it
    make test-compiled ARGS="tests/stateful -x"

It needs a C compiler and Python's headers. Whatever else is in ``.venv`` stays. When the locked packages change, the
next ``make`` takes the extension out again, and the engine runs its Python until ``make compiled`` is called anew.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import bootstrap

from sparkstate.operators import compiled
from sparkstate_tools.checkout import ROOT

FOLDER = ROOT / "compiled"
CANNOT_BUILD = 3
"""Exit code where the compiler or Python's headers are missing."""
TESTS = ("tests/unit/operators", "tests/unit/batches", "tests/unit/compiled")
"""What ``--test`` runs by default: whatever calls the record path, and the module's own tests."""
STATUS = "from sparkstate.operators import compiled; print(compiled.status())"


def lacking(compiler: str, include: Path, version: tuple[int, ...]) -> str:
    """What a build needs and this machine has not, with the command that installs it; empty if nothing is missing.

    ``compiler`` is the command that builds C for this Python, ``include`` the folder of Python's headers.
    """
    words = shlex.split(compiler)
    missing = []
    if not words or shutil.which(words[0]) is None:
        missing.append(f"no C compiler: {words[0] if words else 'cc'} is not on PATH")
    if not (include / "Python.h").is_file():
        missing.append(f"no headers of Python: {include / 'Python.h'} is missing")
    if not missing:
        return ""
    python = ".".join(map(str, version[:2]))
    return (
        f"sparkstate-compiled cannot be built: {'; '.join(missing)}.\n"
        f"  Debian, Ubuntu:  sudo apt-get install gcc libc6-dev python{python}-dev\n"
        f"  Fedora:          sudo dnf install gcc python{python}-devel\n"
        "  macOS:           xcode-select --install\n"
        "Another compiler can be named: make CC=clang compiled\n"
        "Nothing else needs it: without it, the engine does the same in Python."
    )


def compiler(environ: Mapping[str, str]) -> str:
    """The command that setuptools will call: ``CC``, else the compiler that built this Python."""
    return environ.get("CC") or sysconfig.get_config_var("CC") or "cc"


def install(environ: Mapping[str, str]) -> None:
    """Build and install, whether or not uv has built the same before."""
    env = bootstrap.uv_environment(environ, bootstrap.pip_settings())
    tools = bootstrap.cache_directory(environ) / "uv"
    uv = bootstrap.find_uv(tools) or bootstrap.install_uv(tools)
    words = ["pip", "install", "--python", sys.executable, "--no-deps", "--reinstall", FOLDER]
    bootstrap.run([uv, *words], "sparkstate-compiled", env)


def turned_on() -> dict[str, str]:
    """The environment of a process that takes the compiled path."""
    return {name: value for name, value in os.environ.items() if name != compiled.VARIABLE}


def outcome() -> str:
    """What a process that starts now says of the compiled path."""
    command = [sys.executable, "-c", STATUS]
    done = subprocess.run(command, env=turned_on(), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test(arguments: Sequence[str]) -> int:
    """Run pytest on the extension; 1 if anything failed or nothing ran."""
    words = [sys.executable, "-m", "pytest", "-q", "--no-header", *(arguments or TESTS)]
    return int(subprocess.run(words, cwd=ROOT, env=turned_on(), check=False).returncode != 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, install, and test if asked to; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--test", action="store_true", help="run tests on it; further arguments go to pytest")
    options, others = parser.parse_known_args(arguments)
    if others and not options.test:
        parser.error(f"{' '.join(others)}: only --test takes further arguments")
    missing = lacking(compiler(os.environ), Path(sysconfig.get_path("include")), sys.version_info[:2])
    if missing:
        print(missing, file=sys.stderr)
        return CANNOT_BUILD
    install(os.environ)
    found = outcome()
    print(f"compiled record path: {found}", flush=True)
    if found != compiled.IN_USE:
        return 1
    return test(others) if options.test else 0


if __name__ == "__main__":
    sys.exit(main())
