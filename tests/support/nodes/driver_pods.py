"""A driver's pod as the operator would make it, without an operator: what the engine does in a real container.

The objects come from the operator's own builders, so that both distributions meet here as they do in a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparkstate_operator import actions, observed
from sparkstate_operator.config import Config, DriverRole
from sparkstate_operator.core import keys, naming, settings
from sparkstate_operator.objects import children, driver, parts
from sparkstate_operator.plan import Revision
from sparkstate_tools.kubernetes.cluster import Cluster

KEY = b"a key of the tests"


@dataclass
class DriverPods:
    """The attempts of one job; ``manifest`` is the StatefulSparkJob, ``role`` what its drivers are bound to."""

    cluster: Cluster
    namespace: str
    manifest: dict[str, Any]
    role: DriverRole
    uid: str = "9c2f4c5e-0000-4000-8000-000000000001"

    @property
    def context(self) -> parts.Context:
        """What the builders ask for."""
        resolved = settings.resolve(self.manifest["spec"])
        job = observed.Job(
            name=self.manifest["metadata"]["name"],
            namespace=self.namespace,
            uid=self.uid,
            resource_version="1",
            generation=1,
            created=datetime.now(UTC),
            spec=self.manifest["spec"],
            status={},
            finalizers=(),
        )
        return parts.Context(
            job, Revision("revision", resolved), Config(cluster="tests", driver_role=self.role)
        )

    def start(self, attempt: int, start: actions.Start | None = None) -> str:
        """Make everything for an attempt; the pod's name."""
        context = self.context
        standing = [one for one in children.standing(context) if one["kind"] != "Service"]
        own = [
            children.config_map(context, attempt, start or actions.Start()),
            children.secret(context, attempt, KEY),
        ]
        self.cluster.apply(*standing, *own)
        self.cluster.apply(driver.pod(context, attempt))
        return naming.driver_pod(context.job.name, attempt)

    def status(self, pod: str) -> dict[str, Any]:
        """The driver's own, by its endpoint; empty while it does not answer."""
        attempt = int(pod.rpartition("-")[2])
        asking = (
            "import json, urllib.request as u;"
            "r = u.Request('http://127.0.0.1:8480/v1/status',"
            f" headers={{'Authorization': 'Bearer {keys.of_attempt(KEY, self.uid, attempt).read}'}});"
            "print(u.urlopen(r, timeout=5).read().decode())"
        )
        try:
            said = self.cluster.kubectl("exec", pod, "-n", self.namespace, "--", "python", "-c", asking)
        except Exception:  # not there yet, or gone: the caller waits on
            return {}
        found: dict[str, Any] = json.loads(said)
        return found

    def until(
        self, pod: str, probe: Callable[[dict[str, Any]], object], what: str, timeout_s: float = 150
    ) -> dict[str, Any]:
        """Wait until its status is as wished; the error shows what the container printed."""
        try:
            return self.cluster.until(
                lambda: (found := self.status(pod)) and probe(found) and found, what, timeout_s, every_s=1
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.log(pod)[-3000:]}") from None

    def log(self, pod: str) -> str:
        """What its container printed."""
        try:
            return self.cluster.kubectl("logs", pod, "-n", self.namespace)
        except Exception as error:
            return f"no log: {error}"

    def executors(self) -> list[dict[str, Any]]:
        """Executor pods that are not being deleted."""
        found = self.cluster.items(
            "pod", self.namespace, f"spark-role=executor,sparkstate.io/job-uid={self.uid}"
        )
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ended(self, pod: str) -> dict[str, Any] | None:
        """The engine's last word, once its container has ended."""
        found = self.cluster.get("pod", pod, self.namespace) or {}
        for container in found.get("status", {}).get("containerStatuses", ()):
            over = container.get("state", {}).get("terminated")
            if over:
                return {"code": over["exitCode"], **json.loads(over.get("message") or "{}")}
        return None
