"""Example 01 as a job in a cluster with nodes: its input, its manifest, what it wrote against the oracle.

Input and output lie in a folder of this machine, which the pods mount as a claim. Files are released one by one, as
a stream; ``finish`` ends it so that every row of the output can be counted: two last flights of an aircraft that
does not exist, so much later that all of the others count as grounded, and that wait for a watermark themselves.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from support import example
from support.kubernetes.cluster import Cluster

example.add_demo_to_path()

from demo import oracle, pacer, prepare  # noqa: E402

EXAMPLE = example.EXAMPLES / "01-flight-rotations"
CODE = EXAMPLE / "job.py"
HOURS = 24
USER = 185
"""Of the job's image."""
MOUNT = "/data"
IN_THE_CLUSTER: dict[str, Any] = {
    "deployment": "cluster",
    "slotsPerExecutor": 1,
    "executor": {"cores": 1, "memory": "512Mi"},
    "sparkConf": {"spark.kubernetes.executor.request.cores": "100m"},
}
"""What ``deployment: cluster`` asks for on a node with two cores."""
ENDS = frozenset({"Failed", "RestoreBlocked"})
"""Phases that a job does not leave by itself: nobody waits on."""
KILL = """\
import os, pathlib
for each in pathlib.Path("/proc").glob("[0-9]*"):
    if int(each.name) != os.getpid() and b"sparkstate.driver" in (each / "cmdline").read_bytes().split(b"\\0"):
        os.kill(int(each.name), 9)
"""
Change = Mapping[str, Any]
Output = Mapping[str, Counter[oracle.Record]]


@dataclass(frozen=True)
class Prepared:
    """An input and what must come of it."""

    files: Sequence[Path]
    expected: Mapping[str, Counter[oracle.Record]]


def prepared(folder: Path, rows: int = 7_000, files: int = 24) -> Prepared:
    """The first rows of the year (7,000 are eight days) in so many files, and the batch calculation of them."""
    written = prepare.write_files(prepare.in_disorder(prepare.read_flights(rows)), folder, files)
    return Prepared(written, oracle.expected(written, HOURS))


@dataclass(frozen=True)
class Bucket:
    """A bucket as pods reach it."""

    endpoint: str
    name: str
    credentials: Mapping[str, str]
    """``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``."""


@dataclass
class FlightsJob:
    """One job. ``prepare``, ``apply``, ``feed``, then whatever shall happen to it, ``finish`` and ``check``."""

    cluster: Cluster
    namespace: str
    folder: Path
    """For its data; of this job alone."""
    image: str
    bucket: Bucket
    data: Prepared
    name: str = "flights"
    changes: dict[str, Any] = field(default_factory=dict)
    """Of the manifest's ``spec``, beside what the cluster asks for."""
    _pacer: pacer.Pacer | None = None

    # --- what a user writes --------------------------------------------------------------------------------

    def prepare(self, code: str | None = None) -> None:
        """Its Secret, the ConfigMap with its code (the example's), and its data as a claim."""
        for name in ("input", "output"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for path in (self.folder, *self.folder.iterdir()):
            shutil.chown(path, USER, USER)
        self.cluster.apply(
            self._object("Secret", "bucket", stringData=dict(self.bucket.credentials)),
            self._object("ConfigMap", "flights-code", data={"job.py": code or CODE.read_text()}),
            *self._claim(),
        )

    def manifest(self, changes: Change | None = None) -> dict[str, Any]:
        """The example's manifest with what a cluster needs: image, code, S3, the mounted folder."""
        document: dict[str, Any] = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
        document["metadata"] = {"name": self.name, "namespace": self.namespace}
        spec = document["spec"]
        del spec["pythonFile"]
        here = f"s3://{self.bucket.name}/{self.namespace}"
        added = {
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "configMapRef": {"name": "flights-code", "key": "job.py"},
            "deployment": "local",
            "params": {"input": f"{MOUNT}/input", "output": f"file://{MOUNT}/output", "hours": str(HOURS)},
            "checkpointing": {"storage": f"{here}/state", "interval": "4s"},
            "savepoints": {"storage": f"{here}/savepoints"},
            "s3": {
                "endpoint": self.bucket.endpoint,
                "region": "us-east-1",
                "pathStyle": True,
                "secretRef": {"name": "bucket"},
            },
            "driver": {"cores": 1},
            "driverTemplate": _mounting("driver", self.name),
            "executorTemplate": _mounting("executor", self.name),
        }
        document["spec"] = merged(merged(spec, added), {**self.changes, **(changes or {})})
        return document

    def apply(self, changes: Change | None = None) -> None:
        """``kubectl apply``, as a user does it."""
        text = yaml.safe_dump(self.manifest(changes))
        self.cluster.kubectl("apply", "-f", "-", text=text)

    def patch(self, spec: Change) -> None:
        """Changes some fields of the spec in the cluster."""
        document = yaml.safe_dump({"spec": dict(spec)})
        self.cluster.kubectl("patch", "ssj", self.name, "-n", self.namespace, "--type=merge", "-p", document)

    # --- what it does --------------------------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        """Its status now; empty when there is none yet."""
        found = self.cluster.get("ssj", self.name, self.namespace)
        return dict(found.get("status", {})) if found else {}

    def until(
        self, probe: Callable[[dict[str, Any]], object], what: str, timeout_s: float = 180
    ) -> dict[str, Any]:
        """Waits until the status is as wished, and returns it; the error shows the last one. A job that has failed
        is not waited for."""
        began = time.monotonic()
        deadline = began + timeout_s
        while True:
            status = self.status
            if probe(status):
                print(f"{time.monotonic() - began:6.1f} s until {what}", flush=True)
                return status
            ended = status.get("phase") in ENDS
            if ended or time.monotonic() > deadline:
                waited = f"it is {status['phase']}" if ended else f"after {timeout_s:.0f} s"
                raise AssertionError(f"{waited}, and not so that {what}:\n{yaml.safe_dump(status)}")
            time.sleep(0.25)

    def until_phase(self, phase: str, timeout_s: float = 240) -> dict[str, Any]:
        """Waits for a phase."""
        return self.until(lambda status: status.get("phase") == phase, f"{self.name} is {phase}", timeout_s)

    def until_checkpoint_after(self, number: int, timeout_s: float = 240) -> dict[str, Any]:
        """Waits until a checkpoint with a larger number is in the status."""
        return self.until(
            lambda status: (status.get("lastCheckpoint") or {}).get("id", -1) > number,
            f"there is a checkpoint after {number}",
            timeout_s,
        )

    def pods(self, role: str = "driver") -> list[dict[str, Any]]:
        """Its pods of that role that are not being deleted, the newest last."""
        labels = f"sparkstate.io/job={self.name},sparkstate.io/role={role}"
        found = self.cluster.items("pod", self.namespace, labels)
        living = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(living, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def driver(self) -> dict[str, Any]:
        """The newest driver's pod."""
        return self.pods("driver")[-1]

    def kill_driver(self) -> None:
        """``kill -9`` to the driver's process, inside of its container."""
        name = self.driver()["metadata"]["name"]
        self.cluster.kubectl("exec", name, "-n", self.namespace, "-c", "driver", "--", "python", "-c", KILL)

    def driver_log(self) -> str:
        """What the newest driver's container printed."""
        return self.cluster.kubectl("logs", self.driver()["metadata"]["name"], "-n", self.namespace)

    def delete_driver(self) -> str:
        """Deletes the driver's pod without waiting; returns its uid."""
        pod = self.driver()
        self.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", self.namespace, "--wait=false")
        return str(pod["metadata"]["uid"])

    # --- its data ------------------------------------------------------------------------------------------

    def feed(self, interval_s: float = 1.0) -> None:
        """Releases a file every so often, from a thread, until all are there or ``finish`` is called."""
        self._pacer = pacer.Pacer(self.data.files, self.folder / "input", interval_s)
        self._pacer.start()

    def stop_feeding(self) -> None:
        """Releases no more."""
        if self._pacer:
            self._pacer.stop()

    def take_over(self, other: FlightsJob) -> None:
        """Shows this job the input that another one has had, under the same names, and the rest in ``finish``."""
        other.stop_feeding()
        for path in self.data.files[: other.released]:
            pacer.release(path, self.folder / "input")
        self._pacer = other._pacer

    @property
    def released(self) -> int:
        """Files that the job can see."""
        return self._pacer.released if self._pacer else 0

    def finish(self, timeout_s: float = 300, before: Output | None = None) -> None:
        """Releases what is left and the end, and waits until as many records are out as there must be.

        ``before`` is what another job has written of this input already.
        """
        self.stop_feeding()
        for path in self.data.files[self.released :]:
            pacer.release(path, self.folder / "input")
        had = before or {}
        wanted = {
            name: (all_ - had.get(name, Counter())).total() for name, all_ in self.data.expected.items()
        }
        began = time.monotonic()
        deadline = began + timeout_s
        for number in (1, 2):
            self._release_end(number)
            # The second one carries the watermark of the first to whoever waits for it; in epochs of their own.
            time.sleep(2)
        while (found := {name: records.total() for name, records in self.written().items()}) != wanted:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {timeout_s:.0f} s the output has {found} records; it must have {wanted}"
                )
            time.sleep(0.5)
        print(f"{time.monotonic() - began:6.1f} s until all records are out", flush=True)

    def written(self) -> dict[str, Counter[oracle.Record]]:
        """All records of the published files."""
        return {
            output: oracle.written(oracle.committed_files(self.folder / "output" / output), columns)
            for output, columns in oracle.COLUMNS.items()
        }

    def check(self, before: Output | None = None) -> None:
        """Raises unless every output equals the batch calculation, record for record; with what was ``before``."""
        found = {
            name: records + (before or {}).get(name, Counter()) for name, records in self.written().items()
        }
        differences = {name: oracle.compare(self.data.expected[name], found[name]) for name in found}
        wrong = [f"{name}: {each.describe()}" for name, each in differences.items() if not each.equal]
        assert wrong == []

    def _release_end(self, number: int) -> None:
        last = pq.read_table(self.data.files[-1]).to_pylist()[-1]
        # Both at one instant: a later one would let the first depart.
        later = last["time_hour"] + timedelta(hours=10 * HOURS)
        row = {**last, "tailnum": "NONE", "time_hour": later, "dep_time": 1, "arr_delay": 0}
        path = self.folder / f"flights-9{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist([row], schema=prepare.SCHEMA), path)
        pacer.release(path, self.folder / "input")

    # --- objects -------------------------------------------------------------------------------------------

    def _object(self, kind: str, name: str, **rest: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            **rest,
        }

    def _claim(self) -> list[dict[str, Any]]:
        volume = f"{self.namespace}-{self.name}"
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        size = {"storage": "1Gi"}
        claim = {**common, "volumeName": volume, "resources": {"requests": size}}
        reference = {"namespace": self.namespace, "name": f"{self.name}-data"}
        here = {
            **common,
            "capacity": size,
            "hostPath": {"path": str(self.folder)},
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": "Retain",
        }
        made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": here}
        return [made, self._object("PersistentVolumeClaim", f"{self.name}-data", spec=claim)]


def _mounting(container: str, job: str) -> dict[str, Any]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"{job}-data"}}
    mount = {"name": "data", "mountPath": MOUNT}
    # A job's cores are what Spark counts with; what the scheduler reserves is less, since the node has two for all.
    asks = {"requests": {"cpu": "100m"}}
    # A third of the CPU time of a plain start: what the tests wait for is mostly JVMs that begin.
    quick = {"name": "JDK_JAVA_OPTIONS", "value": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    only = {"name": container, "volumeMounts": [mount], "resources": asks, "env": [quick]}
    return {"spec": {"volumes": [volume], "containers": [only]}}


def merged(base: Change, change: Change) -> dict[str, Any]:
    """A copy with the change's fields; maps are merged, None takes a field away."""
    result = dict(base)
    for name, value in change.items():
        old = result.get(name)
        if value is None:
            result.pop(name, None)
        else:
            result[name] = (
                merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
            )
    return result
