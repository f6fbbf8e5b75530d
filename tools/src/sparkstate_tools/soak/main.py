"""``make soak``: one job through 20,000 epochs and 2,000 checkpoints, on each backend, and what grew meanwhile.

A soak is a folder (``build/soak/<backend>`` by default); a run that was stopped or broken off goes on there. The job
reads files that keep coming, keeps a fixed number of keys, checkpoints every second to a real S3 server, and
publishes to it. Slots and drivers are killed, the storage refuses and goes away, by a seeded schedule. A reader checks
every published row and deletes the files. Exit codes: 0 the soak is over and nothing grew, 1 something grew or the
output was wrong, 3 this part is over and the soak is not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sparkstate_tools import checkout
from sparkstate_tools.soak import page, part, reading, report

GREW, NOT_OVER = 1, 3


def main(arguments: Sequence[str]) -> int:
    """Entry point."""
    options = _parser().parse_args(arguments)
    for asked in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # a shell starts what runs in its background with SIGINT ignored
        signal.signal(asked, signal.default_int_handler)
    if options.page:
        return page.write(checkout.ROOT / "docs" / "reliability.md", options.folder)
    codes = [_soak(options, backend) for backend in options.backends]
    return max(codes, key=(0, NOT_OVER, GREW).index)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--backends", nargs="+", default=["hashmap", "rocksdb"], choices=["hashmap", "rocksdb"]
    )
    parser.add_argument("--epochs", type=int, default=20_000, help="of the whole soak (default: 20,000)")
    parser.add_argument("--checkpoints", type=int, default=2_000, help="at least (default: 2,000)")
    parser.add_argument(
        "--minutes", type=float, default=0, help="of this part, for each backend (0: until it is over)"
    )
    parser.add_argument("--folder", type=Path, default=checkout.ROOT / "build" / "soak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="forget what there is and begin anew")
    parser.add_argument(
        "--page", action="store_true", help="only write docs/reliability.md from earlier soaks"
    )
    return parser


def _soak(options: argparse.Namespace, backend: str) -> int:
    folder: Path = (options.folder / backend).resolve()
    if options.again:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"[{backend} {(time.monotonic() - begun) / 60:6.1f} min] {text}", flush=True)

    goal = part.Goal(options.epochs, options.checkpoints, options.minutes)
    try:
        over = part.Part(folder, _options(folder, backend, options.seed), goal, say).run()
    except KeyboardInterrupt:
        over = False
    except (reading.WrongOutput, RuntimeError) as error:
        print(f"FAIL  {backend}: {error}", flush=True)
        return GREW
    return _judge(folder, backend, over=over)


def _options(folder: Path, backend: str, seed: int) -> part.Options:
    """Those of the first part: another seed in the middle would be another input."""
    saved = folder / "soak.json"
    if saved.exists():
        return part.Options(**json.loads(saved.read_text()))
    chosen = part.Options(backend, seed)
    saved.write_text(json.dumps(asdict(chosen)))
    return chosen


def _judge(folder: Path, backend: str, *, over: bool) -> int:
    story = report.read(folder)
    if not story.samples:
        print(
            f"NOT OVER  {backend}: this part was too short for a sample; the same command goes on", flush=True
        )
        return NOT_OVER
    trends = report.trends(story)
    print(f"\n{report.summary(story)}\n\n{report.markdown(report.table(trends))}\n", flush=True)
    if not over:
        print(f"NOT OVER  {backend}: the same command goes on", flush=True)
        return NOT_OVER
    growing = [trend.quantity.title for trend in trends if not trend.flat]
    print(f"FAIL  {backend}: grows: {', '.join(growing)}" if growing else f"PASS  {backend}", flush=True)
    return GREW if growing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
