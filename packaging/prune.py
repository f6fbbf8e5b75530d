"""Takes out of a virtual environment what no running process reads, and compiles the rest. Needs binutils.

Used by the Dockerfile. Spark's jars all stay; licences stay. What goes is test suites, C headers, examples, the Arrow
parts that nothing in PySpark or the engine loads, the names in Arrow's libraries that only a debugger reads, and the
Kubernetes client's generated classes. Bytecode is written for everything that is left: containers have a read-only
root file system, so no process could keep what it compiles, and each would compile again.
"""

from __future__ import annotations

import compileall
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TESTED = (
    *("pandas", "pyarrow", "numpy", "kubernetes", "pyspark", "aiohttp", "msgspec", "pytz"),
    *("py4j", "croniter", "jsonschema", "referencing"),
)
"""Folders called ``tests`` below these go; elsewhere the name may mean something else."""
PARTS = (
    "pyspark/examples",
    "pyspark/data",
    # The same files as the folder beside it, for clusters without PySpark; without bytecode, so imports take longer.
    "pyspark/python/lib/pyspark.zip",
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/*flight*",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/f2py",
    "numpy/distutils",
    # The operator speaks JSON through the client's connection; the classes generated from the API are never loaded.
    "kubernetes/client/api/*_api.py",
    "kubernetes/client/models/*_*.py",
    "kubernetes/aio/client/api/*_api.py",
    "kubernetes/aio/client/models/*_*.py",
)
UNCOMPILED = ("pyspark/pandas", "pyspark/ml", "pyspark/mllib", "pyspark/sql/connect")
"""Without bytecode: neither the engine nor streaming DataFrames load them, and it would be 7 MB."""
SOURCES = ("*.pyx", "*.pxd", "*.pxi", "*.c", "*.cpp", "*.h", "*.a", "*.pyi")


def doomed(site: Path) -> Iterator[Path]:
    """What goes, outermost first."""
    for part in PARTS:
        yield from site.glob(part)
    for package in TESTED:
        for folder in sorted((site / package).rglob("tests")):
            if folder.is_dir():
                yield folder
    for pattern in SOURCES:
        yield from site.rglob(pattern)
    yield from site.rglob("__pycache__")


def prune(site: Path) -> int:
    """Delete it; returns the bytes that were freed."""
    freed = 0
    for path in list(doomed(site)):
        if path.is_symlink() or path.is_file():
            freed += path.lstat().st_size
            path.unlink()
        elif path.is_dir():
            freed += sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())
            shutil.rmtree(path)
    return freed


def link_copies(site: Path) -> int:
    """Wheels hold no links: a library that is there under several names is there as often. Returns the bytes freed."""
    freed = 0
    known: dict[bytes, Path] = {}
    for path in sorted((site / "pyarrow").glob("lib*.so*")):
        content = path.read_bytes()
        if content in known:
            path.unlink()
            path.symlink_to(known[content].name)
            freed += len(content)
        known.setdefault(content, path)
    return freed


def strip(site: Path) -> int:
    """Arrow's own libraries, a fifth smaller without symbols. Those that a wheel's maker has patched to find their
    neighbours (numpy's) are left alone: stripping can break them. Returns the bytes freed."""
    freed = 0
    for path in sorted((site / "pyarrow").glob("lib*.so*")):
        if not path.is_symlink():
            before = path.stat().st_size
            subprocess.run(["strip", "--strip-unneeded", path], check=True)
            freed += before - path.stat().st_size
    return freed


def compile_all(site: Path) -> None:
    """Bytecode that is never compared with its source: a layer may carry other times than were compiled."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    # Templates of code generators are no Python that compiles; what fails here would fail at import only if used.
    left = re.compile("|".join(re.escape(f"/{part}/") for part in UNCOMPILED))
    compileall.compile_dir(site, quiet=2, workers=0, invalidation_mode=mode, rx=left)


def main(environment: Path) -> None:
    """Prune and compile the site-packages of ``environment``."""
    for site in environment.glob("lib/python3.*/site-packages"):
        print(
            f"left out {(prune(site) + link_copies(site) + strip(site)) / 1e6:.0f} MB of {site}", flush=True
        )
        compile_all(site)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
