"""What a job asks of its S3 storage: requests and bytes for each checkpoint, for each epoch, and while it waits.

    make bench-requests                                       4 minutes
    make bench-requests ARGS="--cases rocksdb-2-16 idle"

The real job runs on a real S3 server behind a proxy that counts. The input is large enough that every shard changes
between two checkpoints. What was asked between the first and the last checkpoint is divided by the number of
checkpoints in between. Requests are exact; they do not depend on the machine. Names of cases: backend, slots, shards;
``large`` has more than 1 MiB in each shard, so HashMap stores each shard as an object of its own. ``idle`` takes no
checkpoint: it shows what epochs and the passing of time ask for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import data
import machine
import ours

from sparkstate_tools.drivers import jvm
from sparkstate_tools.servers import s3server
from sparkstate_tools.servers.fault_proxy import FaultProxy
from sparkstate_tools.servers.http_wire import Message

RESULT = Path(__file__).parent / "results" / "storage-requests.json"
_METADATA = re.compile(r"/chk-\d+/_metadata$")
_ENTRY = re.compile(r"/log/\d{12}$")
PLACES = ("log", "chk", "shared", "other")


@dataclass(frozen=True)
class Case:
    """One job. ``keys`` of 16 bytes of state each, spread evenly; ``interval`` of its checkpoints."""

    backend: str
    slots: int
    shards: int
    keys: int = 60_000
    interval: str = "1s"


CASES = {
    **{
        f"{backend}-{slots}-{shards}": Case(backend, slots, shards)
        for backend in ("hashmap", "rocksdb")
        for slots, shards in ((1, 16), (2, 16), (4, 16), (4, 32))
    },
    "large-2-16": Case("hashmap", 2, 16, keys=1_000_000),
    "idle": Case("hashmap", 2, 16, interval="1h"),
}


@dataclass
class Tally:
    """Requests by kind and place, and bytes that were sent, at the moment of each ``_metadata``. Thread-safe."""

    requests: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    marks: list[tuple[float, Counter[str], Counter[str]]] = field(default_factory=list)
    entries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, request: Message) -> None:
        """What the proxy calls for every request."""
        path, _, query = request.words[1].partition("?")
        place = _place(path, query)
        with self.lock:
            self.requests[f"{_kind(request.words[0], query)} {place}"] += 1
            self.sent[place] += len(request.body)
            self.entries += request.words[0] == "PUT" and bool(_ENTRY.search(path))
            if request.words[0] == "PUT" and _METADATA.search(path):
                self.marks.append((time.monotonic(), self.requests.copy(), self.sent.copy()))


def _kind(method: str, query: str) -> str:
    """As a bill has it: an upload in parts is one PUT for its beginning, one for each part, one for its end."""
    if method == "GET" and ("list-type" in query or "uploads" in query):
        return "LIST"
    if method == "POST":
        return "DELETE" if query.startswith("delete") else "PUT"
    return method


def _place(path: str, query: str) -> str:
    text = f"{path}?{query}".replace("%2F", "/")
    return next((place for place in PLACES[:-1] if f"/{place}" in text), "other")


def run(
    case: Case, options: argparse.Namespace, scratch: Path, server: s3server.S3Server
) -> tuple[Tally, int]:
    """The job's requests, and how many epochs it had."""
    tally = Tally()
    folder = data.make(scratch / "in", case.keys * 2, options.epochs, case.keys)
    with FaultProxy(server.port, watch=tally.note) as proxy:
        document = ours.manifest(
            ours.Setup(case.backend, interval=case.interval), folder, case.slots, scratch
        )
        spec = document["spec"]
        spec["checkpointing"]["storage"] = f"s3://state/{scratch.name}"
        spec["s3"] = {"endpoint": proxy.endpoint, "region": "us-east-1", "pathStyle": True}
        spec["shards"] = case.shards
        process, log = ours.start(document, scratch)
        try:
            if process.wait(ours.LIMIT_S) != 0:
                raise SystemExit((scratch / "driver.log").read_text(errors="replace")[-2000:])
        finally:
            ours.stop(process)
    begun = [e for e in ours.Phases(log).new() if (e["process"], e["phase"]) == ("driver", "epoch-begin")]
    return tally, len(begun)


def per_checkpoint(tally: Tally) -> dict[str, Any]:
    """Means between the first and the last checkpoint; the first and the last two are not counted: they begin empty,
    or end the job."""
    (began, before, sent_before), (ended, after, sent_after) = tally.marks[1], tally.marks[-3]
    count = len(tally.marks) - 4
    seconds = ended - began
    return {
        "checkpoints": count,
        "seconds_each": round(seconds / count, 1),
        "requests": _means(before, after, count),
        "bytes": {place: round(mean) for place, mean in _means(sent_before, sent_after, count).items()},
    }


def _means(before: Mapping[str, int], after: Mapping[str, int], count: int) -> dict[str, float]:
    found = {name: round((after[name] - before.get(name, 0)) / count, 2) for name in sorted(after)}
    return {name: mean for name, mean in found.items() if mean}


def measure(
    name: str, options: argparse.Namespace, scratch: Path, server: s3server.S3Server
) -> dict[str, Any]:
    """The figures of one case."""
    case, folder = CASES[name], scratch / name
    folder.mkdir()
    tally, epochs = run(case, options, folder, server)
    shutil.rmtree(folder, ignore_errors=True)
    told = {"case": name, "epochs": epochs, "log_entries": tally.entries}
    if len(tally.marks) < 6:
        return {**told, "requests_of_all": dict(tally.requests)}
    return {**told, **per_checkpoint(tally)}


def main(arguments: Sequence[str]) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=20, help="of each job (default 20)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="ss-requests-"))
    results = []
    try:
        with s3server.running() as server:
            os.environ.update({**server.environment, jvm.VARIABLE: jvm.options(os.environ)})
            for name in options.cases:
                results.append(measure(name, options, scratch, server))
                print(json.dumps(results[-1]), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    machine.write(RESULT, results, machine.description(arguments, "bench-requests"))


if __name__ == "__main__":
    main(sys.argv[1:])
