"""A namespace with an operator, a played kubelet and played drivers: what tests of the operator do all the time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operator_process, played_driver
from sparkstate_tools.operating.kubelet import Kubelet
from sparkstate_tools.operating.operator_process import Operator
from sparkstate_tools.operating.played_driver import PlayedDriver
from sparkstate_tools.processes import free_port

NAME = "orders"


def job(namespace: str, name: str = NAME, **spec: Any) -> dict[str, Any]:
    """A valid job with short times."""
    return {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "image": "example/job:1",
            "pythonFile": "/app/job.py",
            "checkpointing": {"storage": "s3://bucket/state", "timeout": "20s"},
            "fenceTimeout": "3s",
            "sinkTimeout": "1s",
            **spec,
        },
    }


@dataclass
class OperatedNamespace:
    """One namespace under one operator at a time."""

    cluster: Cluster
    namespace: str
    folder: Path
    port: int = field(default_factory=free_port)
    operator: Operator | None = None
    name: str = NAME

    def document(self, **spec: Any) -> dict[str, Any]:
        """The job of this namespace, not yet created."""
        return job(self.namespace, self.name, **spec)

    def finish_command(
        self, name: str, word: Mapping[str, Any] | None = None, code: int | None = None
    ) -> None:
        """Play the kubelet for an engine command: its pod, which the Job controller makes, ends with success, or as
        ``word`` says (``ok``), or with the exit code ``code``. A command that is gone by now has no pod."""
        found = self._pod_of_command(name)
        if found is None or found["spec"].get("nodeName"):
            return
        pod, told = found["metadata"]["name"], word or {"ok": True}
        self.kubelet.bind(pod)
        self.kubelet.end(
            pod, (0 if told["ok"] else 5) if code is None else code, dict(told), container="command"
        )

    def _pod_of_command(self, name: str) -> dict[str, Any] | None:
        """The pod that the Job controller makes for a command; None if the command is gone by now."""
        chosen = f"batch.kubernetes.io/job-name={name}"
        pods = self.cluster.until(
            lambda: (
                self.cluster.items("pods", self.namespace, chosen)
                or self.cluster.get("job", name, self.namespace) is None
            ),
            f"{name} has a pod",
        )
        return dict(pods[0]) if isinstance(pods, list) else None

    def run_command(self, name: str) -> dict[str, Any]:
        """Run the engine command that the Job of that name asks for, as its container would, and let its pod end with
        the word that it left; returns that word."""
        arguments, variables, said = self._process_of_command(name)
        subprocess.run(arguments, env=variables, capture_output=True, check=False, timeout=120)
        word: dict[str, Any] = json.loads(said.read_text())
        self.finish_command(name, word)
        return word

    @contextlib.contextmanager
    def running_command(self, verb: str) -> Iterator[str]:
        """While the engine command whose first words are these runs as a process, the played kubelet says that its pod
        does, at the loopback's address; there it says how far it is. Gives its name. It has to end by itself after the
        block, and its pod then ends with the word that it left."""
        name = self.until_command(verb)
        arguments, variables, said = self._process_of_command(name)
        found = self._pod_of_command(name)
        assert found is not None, f"{name} is gone"
        pod = found["metadata"]["name"]
        with subprocess.Popen(
            arguments,
            env={**variables, "SPARKSTATE_PROGRESS_PORT": str(self.port)},
            stdout=subprocess.DEVNULL,
        ) as process:
            try:
                self.kubelet.run(pod, container="command")
                yield name
                process.wait(60)
            finally:
                process.kill()
        word = json.loads(said.read_text())
        self.kubelet.end(pod, 0 if word["ok"] else 5, word, container="command")

    def _process_of_command(self, name: str) -> tuple[list[str], dict[str, str], Path]:
        """Arguments and environment of the command as its container has them, and the file of its last word."""
        command = self.cluster.get("job", name, self.namespace)
        assert command is not None, f"{name} is gone"
        spec = command["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        arguments = list(container["args"])
        for volume in spec["volumes"]:
            if volume["name"] == "job":
                config = self.cluster.get("configmap", volume["configMap"]["name"], self.namespace)
                manifest = self.folder / "job.yaml"
                manifest.write_text((config or {})["data"]["job.yaml"])
                arguments[arguments.index("--manifest") + 1] = str(manifest)
        said = self.folder / f"{name}.word"
        variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        return (
            [sys.executable, "-m", "sparkstate.cli.main", *arguments, "--termination-log", str(said)],
            {**os.environ, **variables, "HOME": str(self.folder)},
            said,
        )

    def run_next_command(self, verb: str, timeout_s: float = 60) -> dict[str, Any]:
        """Wait for an engine command whose first words are these, and run it."""
        return self.run_command(self.until_command(verb, timeout_s))

    def until_command(self, verb: str, timeout_s: float = 60) -> str:
        """The name of an engine command whose first words are these and that has not ended, once it is there."""

        def found() -> str | None:
            for command in self.cluster.items("jobs", self.namespace):
                (container,) = command["spec"]["template"]["spec"]["containers"]
                if " ".join(container["args"]).startswith(verb) and not command.get("status", {}).get(
                    "conditions"
                ):
                    return str(command["metadata"]["name"])
            return None

        return self.cluster.until(found, f"a command `{verb}` is there", timeout_s)

    @property
    def kubelet(self) -> Kubelet:
        return Kubelet(self.cluster, self.namespace)

    def start(self, **rest: Any) -> Operator:
        """A new operator process; there must be no other."""
        options: Sequence[str] = ["--driver-port", str(self.port), *rest.pop("options", ())]
        kubeconfig = rest.pop("kubeconfig", self.cluster.kubeconfig)
        self.operator = operator_process.start(
            kubeconfig, self.folder, [self.namespace], options=options, **rest
        )
        return self.operator

    def apply(self, name: str = NAME, **spec: Any) -> dict[str, Any]:
        """Create or change a job; returns it as it is then."""
        self.cluster.apply(job(self.namespace, name, **spec))
        return self.job(name)

    def job(self, name: str = NAME) -> dict[str, Any]:
        """The job as it is."""
        found = self.cluster.get("ssj", name, self.namespace)
        assert found is not None, f"job {name} is gone"
        return found

    def status(self, name: str = NAME) -> dict[str, Any]:
        """Its status, empty while it has none."""
        return dict((self.cluster.get("ssj", name, self.namespace) or {}).get("status") or {})

    def until_pod(self, attempt: int, name: str = NAME, timeout_s: float = 60) -> dict[str, Any]:
        """The driver pod of that attempt, once it is there."""
        pod = f"{name}-driver-{attempt}"
        return self.cluster.until(
            lambda: self.cluster.get("pod", pod, self.namespace), f"pod {pod} is there", timeout_s
        )

    def register(self, name: str, uri: str, **spec: Any) -> None:
        """Make a StateSnapshot of a savepoint that is there."""
        self.snapshot(name, jobRef=None, uri=uri, **spec)

    def snapshot(self, name: str, **spec: Any) -> None:
        """Make a StateSnapshot of the job."""
        given = {"jobRef": {"name": self.name}, **spec}
        self.cluster.apply(
            {
                "apiVersion": "sparkstate.io/v1alpha1",
                "kind": "StateSnapshot",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {field: value for field, value in given.items() if value is not None},
            }
        )

    def until_snapshot(self, name: str, phase: str, timeout_s: float = 60) -> dict[str, Any]:
        """The snapshot's status, once it is in that phase."""

        def reached() -> dict[str, Any] | None:
            found = (self.cluster.get("snap", name, self.namespace) or {}).get("status") or {}
            return found if found.get("phase") == phase else None

        return self.cluster.until(reached, f"snapshot {name} is {phase}", timeout_s)

    def until_deleting(self, pod: str, timeout_s: float = 60) -> None:
        """Wait until the pod is asked to end."""

        def asked() -> bool:
            found = self.cluster.get("pod", pod, self.namespace)
            return found is None or "deletionTimestamp" in found["metadata"]

        self.cluster.until(asked, f"pod {pod} is being deleted", timeout_s)

    def until_phase(self, phase: str, name: str = NAME, timeout_s: float = 60) -> dict[str, Any]:
        """The status, once the phase is that."""
        seen: list[dict[str, Any]] = []

        def reached() -> dict[str, Any] | None:
            seen[:] = [self.status(name)]
            return seen[0] if seen[0].get("phase") == phase else None

        try:
            return self.cluster.until(reached, f"job {name} is {phase}", timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {seen}; log: {self.log_tail()}") from None

    def checkpoint(self, name: str = NAME) -> int | None:
        """Number of the last checkpoint that its status tells; None before the first."""
        return (self.status(name).get("lastCheckpoint") or {}).get("id")

    def until_checkpoint(self, number: int, name: str = NAME, timeout_s: float = 40) -> None:
        """Its status tells that checkpoint as the last one."""
        self.cluster.until(
            lambda: self.checkpoint(name) == number, f"{name} tells checkpoint {number}", timeout_s
        )

    def until_shown(self, kind: str, name: str, words: str, timeout_s: float = 30) -> None:
        """Its line in ``kubectl get -o wide`` has these words."""
        where = ("-n", self.namespace, "-o", "wide", "--no-headers", "--ignore-not-found")
        self.cluster.until(
            lambda: words in self.cluster.kubectl("get", kind, name, *where),
            f"{kind} {name} shows `{words}`",
            timeout_s,
        )

    def log_tail(self) -> str:
        """The end of the operator's log."""
        return self.operator.log.read_text()[-3000:] if self.operator else ""

    def running(self, attempt: int = 1, name: str = NAME) -> None:
        """Play the kubelet until the attempt runs."""
        self.until_pod(attempt, name)
        self.kubelet.run(f"{name}-driver-{attempt}")
        self.until_phase("Running", name)

    @contextlib.contextmanager
    def driver(self, attempt: int = 1, name: str = NAME) -> Iterator[PlayedDriver]:
        """The driver of that attempt answers."""
        with played_driver.serving(self.job(name)["metadata"]["uid"], attempt, self.port) as played:
            yield played

    def conditions(self, name: str = NAME) -> dict[str, dict[str, Any]]:
        """By type."""
        return {one["type"]: one for one in self.status(name).get("conditions") or ()}

    def delete(self, name: str = NAME, cascade: str = "background") -> None:
        """Ask for the deletion of a job; does not wait."""
        self.cluster.kubectl(
            "delete", "ssj", name, "-n", self.namespace, "--wait=false", f"--cascade={cascade}"
        )

    def reasons(self) -> set[str]:
        """Reasons of all Events of the namespace."""
        return {event["reason"] for event in self.cluster.items("events", self.namespace)}

    def end(self) -> None:
        """Stop the operator, let everything go that it held; its log must hold no error."""
        if self.operator is None:
            return
        if self.operator.alive:
            self.operator.stop()
        for kind in ("ssj", "snap"):
            for one in self.cluster.items(kind, self.namespace):
                patch = '{"metadata":{"finalizers":[]}}'
                where = ["-n", self.namespace, "--type=merge", "-p", patch]
                self.cluster.kubectl("patch", kind, one["metadata"]["name"], *where)
        assert self.operator.errors() == []
