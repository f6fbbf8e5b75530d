"""``python -m sparkstate.driver``: runs one attempt of one job.

Exit codes are those of ``errors``; 0 when the job finished, was stopped, or was fenced off with ``--fenced-exit-zero``
(a container that must not be started again). The last word goes to ``--termination-log`` as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import os
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sparkstate import errors, java, manifest
from sparkstate.driver import pod, termination
from sparkstate.local_state import folders, inheritance
from sparkstate.slots.last_lines import LastLines, hearing
from sparkstate.slots.starting import LocalSlots

if TYPE_CHECKING:
    from sparkstate.driver.outcomes import Outcome

_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
"""Of glibc's ``malloc.h``."""
_HEAPS = 2
_LARGE_BYTES = 128 * 1024
"""glibc's own threshold, which moves unless it is set."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = _parse(arguments)
    limit_arenas()
    heard = LastLines()
    with hearing(heard):
        return _ended(options, heard)


def _ended(options: argparse.Namespace, heard: LastLines) -> int:
    """Run, and say how it ended; the exit code."""
    try:
        outcome = _run(options, heard)
        return _last_word(options, outcome.reason, outcome.message, 0, outcome.savepoint)
    except errors.Fenced as error:
        return _last_word(
            options, error.reason, str(error), 0 if options.fenced_exit_zero else error.exit_code
        )
    except errors.SparkstateError as error:
        return _last_word(options, error.reason, str(error), error.exit_code)
    except SystemExit as error:
        # Of the job's own code, whatever its code is: 0 would tell of a job that has finished.
        traceback.print_exc()
        told = f"the job's code called sys.exit({error.code!r}) in the driver; raise an exception instead"
        return _last_word(options, errors.UserCodeError.__name__, told, errors.UserCodeError.exit_code)
    except Exception as error:
        traceback.print_exc()
        return _last_word(options, type(error).__name__, str(error) or "it has no message", 1)


def limit_arenas() -> None:
    """Have memory given back that epochs, checkpoints and outages need only for a moment.

    Arrow's own allocator keeps pages for every thread that ever asked for some bytes, and a driver has new threads for
    each epoch and checkpoint: it kept 4 MiB in 1,000 epochs, of which at most 0.1 MiB was in use at a time. glibc has
    eight heaps for each processor, which keep what they once had. The first large block that is freed makes glibc take
    further ones (a checkpoint's metadata) from the heaps too, between small ones that stay.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(AttributeError, OSError):  # a C library that is not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, _HEAPS)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sparkstate driver", description="Run one attempt of a StatefulSparkJob."
    )
    parser.add_argument("--manifest", required=True, type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="overrides")
    parser.add_argument("--work-dir", required=True, type=Path)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument(
        "--lineage",
        default="",
        help="the lineage that earlier attempts had: without it the storage is away, not new",
    )
    parser.add_argument(
        "--start-since",
        type=int,
        default=0,
        metavar="ATTEMPT",
        help="the attempt that startEmpty was given to, which is carried out once; default: this one",
    )
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--token-file", type=Path, help="file with the token; default: a random one")
    parser.add_argument("--status-file", type=Path)
    parser.add_argument("--termination-log", type=Path)
    parser.add_argument(
        "--fenced-exit-zero", action="store_true", help="a fenced driver exits 0: do not start it again"
    )
    parser.add_argument(
        "--in-cluster", action="store_true", help="honour deployment: cluster (set by the operator)"
    )
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, heard: LastLines) -> Outcome:
    loaded = manifest.load(options.manifest, options.overrides)
    place = pod.read(os.environ, options.attempt, loaded.annotations) if options.in_cluster else None
    resolve = functools.partial(
        manifest.resolve,
        loaded,
        cluster=place.cluster if place else "local",
        in_cluster=place is not None,
    )
    # An operator looks for the state where the manifest says; beside it the code may say where that is.
    resolved = resolve(place_by_code=place is None)
    work_dir = options.work_dir.resolve()
    _prepare(work_dir)
    settings = replace(
        resolved.settings,
        pod=place,
        work_dir=str(work_dir),
        known_lineage=options.lineage,
        start_since=options.start_since,
    )
    os.environ.update(java.find(os.environ).environment())
    # Imported late: PySpark takes seconds, and a wrong manifest should not wait for it. The rest is loaded while the
    # JVM and the slots start.
    from sparkstate.spark.jvm import Jvm

    jvm = Jvm(settings)
    here = LocalSlots(work_dir / folders.SLOTS, settings.slots) if settings.deployment == "local" else None
    from sparkstate.spark.session import Beginning

    spark = Beginning(settings, jvm)
    from sparkstate.driver import attempt, code_settings, termination_policy

    try:
        outcome = attempt.run(
            options,
            settings,
            resolved.notices,
            spark,
            here,
            lambda message: _last_word(options, termination_policy.REASON, message, 0),
            heard,
            code_settings.CodeSettings(resolved.given, lambda code: resolve(code=code)),
        )
    finally:
        _empty(work_dir)
    # Only after an end without an error: after any other, the next slots find their state there (RFC 0011).
    shutil.rmtree(work_dir / folders.SLOTS, ignore_errors=True)
    return outcome


def _prepare(work_dir: Path) -> None:
    try:
        _empty(work_dir)
    except OSError as error:
        raise errors.SpecInvalid(
            f"{work_dir} cannot be the working directory: {error}; the first of spec.localStorage.paths has to be a "
            f"volume that driverTemplate mounts and user {os.getuid()} may write to"
        ) from error


def _empty(work_dir: Path) -> None:
    """Remove what an earlier driver left in our own folders, except the state that its slots held. Everything else
    in there belongs to others."""
    work_dir.mkdir(parents=True, exist_ok=True)
    inheritance.retire_all(work_dir / folders.SLOTS)
    for name in ("query", "spark", "backend-trial"):
        shutil.rmtree(work_dir / name, ignore_errors=True)


def _last_word(
    options: argparse.Namespace,
    reason: str,
    message: str,
    code: int,
    savepoint: Mapping[str, object] | None = None,
) -> int:
    print(f"{reason}: {message}", file=sys.stderr if code else sys.stdout, flush=True)
    word: dict[str, object] = {"reason": reason, "message": message, "exit_code": code}
    if savepoint is not None:
        word["savepoint"] = dict(savepoint)
    termination.write(options.termination_log, word)
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: that would wait for the thread of a sink that hangs, and so for ever.
    os._exit(code)
