"""CPU time of a row on a real node with 1, 2, 4 and 8 slots of the same work each: in the driver, in the executors.

    make bench-nodes                                            one backend, one function; 8 minutes on two cores
    make bench-nodes ARGS="--slots 1 4 --backends rocksdb"

The node is that of ``make e2e``: a kubelet and containerd on this machine, with the images of the Dockerfile, the
operator as its chart installs it, and an S3 server. One job after the other runs there with ``deployment: cluster`` and
an executor pod for each slot. Spark makes its rows: ``--rows`` in each epoch and ``--keys`` keys, for each slot. The
CPU time of a pod is what its control group counts, between the ends of two epochs.

The machine's cores are shared by all pods, so rows/s cannot grow with the slots; the table says how many cores there
are. CPU per row of the executors must stay flat: with more slots at most 1.25 times that with the fewest. Exit codes:
0 it stays flat, 1 it does not or a number of slots could not be measured, 3 this machine cannot run nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyed_sums
import machine
import node_job
import scaling
from node_job import Load, NodeJob

from sparkstate_tools import images
from sparkstate_tools.kubernetes import addresses, nodes, pod_usage
from sparkstate_tools.kubernetes.control_plane import ADDRESS
from sparkstate_tools.kubernetes.nodes import NodeCluster
from sparkstate_tools.operating import chart, preparing
from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers import s3server

RESULTS = Path(__file__).parent / "results"
NOT_RUN = 3
Rounds = dict[tuple[str, int], list[scaling.Cost]]
"""By backend and slots."""
Missing = dict[tuple[str, int], str]
"""The reason, by backend and slots."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--backends", nargs="+", choices=("hashmap", "rocksdb"), default=["hashmap"])
    parser.add_argument("--function", choices=list(keyed_sums.FUNCTIONS), default="sum")
    parser.add_argument("--rows", type=int, default=400_000, help="of each slot and epoch (default 400,000)")
    parser.add_argument("--keys", type=int, default=25_000, help="of each slot (default 25,000)")
    parser.add_argument("--epochs", type=int, default=8, help="that count (default 8)")
    parser.add_argument(
        "--warm-up", type=int, default=3_200_000, help="rows of each slot before (default 3,200,000)"
    )
    parser.add_argument("--interval", default="2s", help="of checkpoints (default 2s)")
    parser.add_argument("--executor-memory", default="512Mi", help="heap of an executor (default 512Mi)")
    parser.add_argument("--rounds", type=int, default=1, help="alternating rounds (default 1)")
    parser.add_argument(
        "--no-images", action="store_true", help="take the archives under build/images as they are"
    )
    parser.add_argument("--name", default="scale-on-nodes", help="of the JSON file under benchmarks/results/")
    return parser.parse_args()


@contextlib.contextmanager
def stage() -> Iterator[tuple[NodeCluster, Bucket]]:
    """A node with the images and the operator, and a bucket that pods reach."""
    with nodes.running() as there:
        for target in images.TARGETS:
            there.import_image(images.image(target).archive)
        place = s3server.Place(ADDRESS, there.inside, there.door.connect)
        with s3server.running(place) as server, chart.installed(there.cluster, there.folder):
            endpoint = f"http://{addresses.at(ADDRESS, server.port)}"
            yield there, Bucket(endpoint, "state", server.environment)


def measure(there: NodeCluster, bucket: Bucket, load: Load) -> scaling.Cost:
    """One job, from its creation to the end of its last pod."""
    with there.cluster.namespace("scale", chart.RESTRICTED) as namespace:
        try:
            return NodeJob(there, namespace, load, bucket).measure()
        finally:
            node_job.end(there, namespace)


def load_of(options: argparse.Namespace, backend: str, slots: int) -> Load:
    """The load of one job."""
    return Load(
        backend=backend,
        function=options.function,
        slots=slots,
        rows=options.rows,
        keys=options.keys,
        warm_up_rows=options.warm_up,
        epochs=options.epochs,
        interval=options.interval,
        executor_memory=options.executor_memory,
    )


def run(options: argparse.Namespace) -> tuple[Rounds, Missing]:
    """All rounds, alternating; what could not be measured is not tried again."""
    done: Rounds = {}
    missing: Missing = {}
    with stage() as (there, bucket):
        for number in range(options.rounds):
            for backend in options.backends:
                for slots in options.slots:
                    if (backend, slots) in missing:
                        continue
                    try:
                        cost = measure(there, bucket, load_of(options, backend, slots))
                    except (node_job.NotMeasured, scaling.Unusable, pod_usage.MissingUsage) as error:
                        missing[backend, slots] = str(error)
                        print(f"{backend}, {slots} slots: not measured: {error}", flush=True)
                        continue
                    done.setdefault((backend, slots), []).append(cost)
                    shown = scaling.result(backend, slots, 1 + slots, [cost])
                    print(f"{number + 1}/{options.rounds} {json.dumps(shown)}", flush=True)
    return done, missing


def main() -> int:
    """Measure, print, write."""
    options = _options()
    described = machine.description(sys.argv[1:], "bench-nodes")
    try:
        preparing.prepare(build=not options.no_images)
    except (nodes.CannotRunNodes, images.CannotBuild) as error:
        print(f"NOT RUN: {error}")
        return NOT_RUN
    except preparing.PreparationFailed as error:
        print(error)
        return 1
    done, missing = run(options)
    results: list[dict[str, Any]] = scaling.relate(
        [
            scaling.result(backend, slots, 1 + slots, rounds)
            for (backend, slots), rounds in done.items()
            if (backend, slots) not in missing
        ]
    )
    untold = [{"backend": b, "slots": s, "reason": reason} for (b, s), reason in missing.items()]
    machine.write(RESULTS / f"{options.name}.json", results, described, not_measured=untold)
    print(scaling.text(results, os.cpu_count() or 1))
    for each in untold:
        print(f"{each['backend']}, {each['slots']} slots: not measured: {each['reason']}")
    return 0 if results and scaling.flat(results) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
