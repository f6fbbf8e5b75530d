"""A job in a cluster with nodes, whatever it reckons: its objects, its pods, its data as a folder of this machine.

Input and output lie in a folder that the pods mount as a claim. Files are released one by one, as a stream. While a
test waits for the job and the stream pauses, files without rows follow: a job without input takes no checkpoint.
"""

from __future__ import annotations

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from sparkstate_tools.demo import pacer
from sparkstate_tools.kubernetes.cluster import Cluster, CommandFailed
from sparkstate_tools.operating.cluster_jobs import STUCK, Bucket

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
KINDS: dict[str, dict[str, Any]] = {"local": {}, "cluster": IN_THE_CLUSTER}
"""What a job's spec says of its deployment, by its name."""
KILL = """\
import contextlib, os, pathlib, time
for each in pathlib.Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(OSError):  # it has ended meanwhile
        if int(each.name) != os.getpid() and b"sparkstate.driver" in (each / "cmdline").read_bytes().split(b"\\0"):
            print(time.time(), flush=True)
            os.kill(int(each.name), 9)
"""
MEMORY = """\
import pathlib
here = pathlib.Path("/sys/fs/cgroup")
names = ("memory.peak", "memory.max", "memory.events")  # version 2 of control groups, and version 1
if not (here / names[0]).exists():
    here, names = here / "memory", ("memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control")
peak, limit, events = ((here / name).read_text() for name in names)
print(peak, limit, dict(line.split() for line in events.splitlines())["oom_kill"])
"""
KEPT_UP_S = 5.0
"""Between two files without rows: longer than the job's interval of checkpoints."""
Change = Mapping[str, Any]


@dataclass(frozen=True)
class ContainerMemory:
    """What the kernel knows of a container's memory, in bytes."""

    peak: int
    """The most it ever had, page cache included."""
    limit: int
    oom_kills: int
    """Processes that the kernel has killed for memory."""


@dataclass
class NodeJob(ABC):
    """One job. ``prepare``, ``apply``, ``feed``, then whatever shall happen to it."""

    cluster: Cluster
    namespace: str
    folder: Path
    """For its data; of this job alone."""
    image: str
    bucket: Bucket
    name: str
    changes: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Of the manifest's ``spec``, beside what the cluster asks for."""
    cpu: str = field(default="", kw_only=True)
    """What each pod reserves where a test times something, and its JVM is then as users have it. Else next to nothing,
    and a JVM that starts quickly."""
    _pacer: pacer.Pacer | None = field(default=None, kw_only=True)
    _at_once: int = field(default=0, kw_only=True)
    _kept_up_s: float = field(default=0.0, kw_only=True)
    """When the newest file without rows was released."""

    # --- what a user writes --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def own_code(self) -> Path:
        """Its script, unless a test has another."""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """All of its input."""

    @abstractmethod
    def example(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Its manifest as a user has it on one machine, and the ``params`` it needs here."""

    def prepare(self, code: str | None = None) -> None:
        """Its Secret, the ConfigMap with its code, and its data as a claim."""
        for name in ("input", "output"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for path in (self.folder, *self.folder.iterdir()):
            shutil.chown(path, USER, USER)
        self.cluster.apply(
            self._object("Secret", "bucket", stringData=dict(self.bucket.credentials)),
            self._object("ConfigMap", "code", data={"job.py": code or self.own_code.read_text()}),
            *self._claim(),
        )

    def manifest(self, changes: Change | None = None) -> dict[str, Any]:
        """The example's manifest with what a cluster needs: image, code, S3, the mounted folder."""
        document, params = self.example()
        document["metadata"] = {"name": self.name, "namespace": self.namespace}
        spec = document["spec"]
        del spec["pythonFile"]
        here = f"s3://{self.bucket.name}/{self.namespace}"
        added = {
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "configMapRef": {"name": "code", "key": "job.py"},
            "deployment": "local",
            "params": params,
            "checkpointing": {"storage": f"{here}/state", "interval": "4s"},
            "savepoints": {"storage": f"{here}/savepoints"},
            "s3": {
                "endpoint": self.bucket.endpoint,
                "region": "us-east-1",
                "pathStyle": True,
                "secretRef": {"name": "bucket"},
            },
            "driver": {"cores": 1},
            "driverTemplate": _mounting("driver", self.name, self.cpu),
            "executorTemplate": _mounting("executor", self.name, self.cpu),
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
        self,
        probe: Callable[[dict[str, Any]], object],
        what: str,
        timeout_s: float = 180,
        every_s: float = 0.25,
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
            ended = status.get("phase") in STUCK
            if ended or time.monotonic() > deadline:
                waited = f"it is {status['phase']}" if ended else f"after {timeout_s:.0f} s"
                raise AssertionError(f"{waited}, and not so that {what}:\n{yaml.safe_dump(status)}")
            self._keep_up()
            time.sleep(every_s)

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

    def kill_driver(self) -> float:
        """``kill -9`` to the driver's process, inside of its container; the Unix time of it."""
        name = self.driver()["metadata"]["name"]
        words = ("exec", name, "-n", self.namespace, "-c", "driver", "--", "python", "-c", KILL)
        try:
            printed = self.cluster.kubectl(*words)
        except CommandFailed as error:
            # The container ends with the driver, and with it whoever is in there, the killer too.
            if "exit code 137" not in str(error):
                raise
            printed = error.printed
        return float(printed.split()[-1])

    def driver_log(self) -> str:
        """What the newest driver's container printed."""
        return self.cluster.kubectl("logs", self.driver()["metadata"]["name"], "-n", self.namespace)

    def driver_memory(self) -> ContainerMemory:
        """Of the newest driver's container, as the kernel counts."""
        pod = self.driver()["metadata"]["name"]
        words = ("exec", pod, "-n", self.namespace, "-c", "driver", "--", "python", "-c", MEMORY)
        return ContainerMemory(*map(int, self.cluster.kubectl(*words).split()))

    def delete_driver(self) -> str:
        """Deletes the driver's pod without waiting; returns its uid."""
        return self.delete(self.driver())

    def delete_executor(self) -> str:
        """As :meth:`delete_driver`, the newest of its executors' pods."""
        return self.delete(self.pods("executor")[-1])

    def delete(self, pod: dict[str, Any]) -> str:
        """Deletes that pod of it without waiting; returns its uid."""
        self.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", self.namespace, "--wait=false")
        return str(pod["metadata"]["uid"])

    # --- its data ------------------------------------------------------------------------------------------

    def release_first(self, number: int) -> None:
        """Releases the first files at once."""
        for path in self.files[:number]:
            pacer.release(path, self.folder / "input")
        self._at_once = number

    def feed(self, interval_s: float = 1.0) -> None:
        """Releases a further file every so often, from a thread, until all are there or ``release_rest``."""
        self._pacer = pacer.Pacer(self.files[self._at_once :], self.folder / "input", interval_s)
        self._pacer.start()

    def stop_feeding(self) -> None:
        """Releases no more rows."""
        if self._pacer:
            self._pacer.stop()

    def _keep_up(self) -> None:
        """Releases a file without rows, if no other file comes and the last one has had its checkpoint."""
        flows = self._pacer is not None and self._pacer.flows
        if flows or not self.released or time.monotonic() - self._kept_up_s < KEPT_UP_S:
            return
        # No name comes twice: a job may go on at the position of another, which has seen files under these names.
        name = f"quiet-{time.time_ns()}.parquet"
        hidden = self.folder / "input" / f".{name}"
        pq.write_table(pq.read_schema(self.files[0]).empty_table(), hidden)
        self._date(hidden)
        hidden.rename(hidden.with_name(name))
        self._kept_up_s = time.monotonic()

    def _date(self, path: Path) -> None:
        """Makes a file the next one after those that the job can see. These are years old in the example, and once
        Spark has taken a file of today, it passes over all that are older by a week (``maxFileAge``)."""
        seen = (each for each in (self.folder / "input").iterdir() if not each.name.startswith("."))
        following = max(each.stat().st_mtime_ns for each in seen) + 1_000_000
        os.utime(path, ns=(following, following))

    @property
    def released(self) -> int:
        """Files that the job can see."""
        return self._at_once + (self._pacer.released if self._pacer else 0)

    def release_rest(self) -> None:
        """Releases all files that are not there yet."""
        self.stop_feeding()
        for path in self.files[self.released :]:
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


def _mounting(container: str, job: str, cpu: str) -> dict[str, Any]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"{job}-data"}}
    mount = {"name": "data", "mountPath": MOUNT}
    # A job's cores are what Spark counts with; what the scheduler reserves is less, since the node has two for all.
    asks = {"requests": {"cpu": cpu or "100m"}}
    # A third of the CPU time of a plain start: what the tests wait for is mostly JVMs that begin.
    quick = {"name": "JDK_JAVA_OPTIONS", "value": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    only = {"name": container, "volumeMounts": [mount], "resources": asks, "env": [] if cpu else [quick]}
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
