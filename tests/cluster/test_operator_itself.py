"""What the operator tells of itself, and what its looking costs."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

import pytest

from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace
from sparkstate_tools.processes import free_port


@dataclass
class Web:
    """The operator's own endpoint."""

    port: int = field(default_factory=free_port)

    @property
    def options(self) -> list[str]:
        return ["--listen", f"127.0.0.1:{self.port}"]

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as found:
            return str(found.read().decode())

    def status(self, path: str) -> int:
        try:
            self.text(path)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
        return 200

    def metric(self, line: str) -> float:
        """The value of the line that begins so; 0 if there is none."""
        found = (text for text in self.text("/metrics").splitlines() if text.startswith(line + " "))
        return float(next(found, "x 0").rpartition(" ")[2])


@pytest.mark.own_cluster
def test_an_operator_whose_watches_cannot_connect_is_not_ready_but_alive(operated: OperatedNamespace) -> None:
    operator_account.make(operated.cluster, operated.namespace)
    web = Web()
    with operated.cluster.faults() as proxy:
        kubeconfig = operated.cluster.kubeconfig_of(
            operated.namespace, operator_account.NAME, server=proxy.server
        )
        operated.start(kubeconfig=kubeconfig, options=web.options)
        operated.cluster.until(lambda: web.status("/readyz") == 200, "it is ready", 30)
        proxy.answer(503, pattern="/pods.*watch=true", times=-1)
        proxy.drop_watches()
        operated.cluster.until(lambda: web.status("/readyz") == 503, "it is not ready", 30)
        assert web.status("/livez") == 200
        proxy.heal()
        operated.cluster.until(lambda: web.status("/readyz") == 200, "it is ready again", 60)
        assert operated.operator
        operated.operator.stop()


@pytest.mark.extra
@pytest.mark.own_cluster
def test_progress_is_told_soon_and_an_idle_job_costs_no_request(operated: OperatedNamespace) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    operated.start(kubeconfig=kubeconfig, options=["--resync-seconds", "600", "--progress-seconds", "5"])
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(1)
        operated.running()
        operated.cluster.until(
            lambda: operated.status().get("lastCheckpoint", {}).get("id") == 1, "the first one is told"
        )
        driver.checkpoints_done(2)
        # A look at the job so soon after the last write learns of it, and must not take it for told.
        operated.cluster.kubectl("annotate", "ssj", "orders", "looked=at", "-n", operated.namespace)
        operated.cluster.until(
            lambda: operated.status()["lastCheckpoint"]["id"] == 2, "the next one is told soon", 25
        )
        time.sleep(5)
        mark = operated.cluster.audit.mark()
        time.sleep(25)
        requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    spent = [(r.verb, r.resource, r.name) for r in requests if r.resource != "leases" and r.verb != "watch"]
    assert spent == []


def test_snapshots_attempts_and_requests_are_counted(operated: OperatedNamespace) -> None:
    web = Web()
    operated.start(options=web.options)
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        meta = {"name": "one", "namespace": operated.namespace}
        spec = {"jobRef": {"name": "orders"}}
        operated.cluster.apply(
            {"apiVersion": "sparkstate.io/v1alpha1", "kind": "StateSnapshot", "metadata": meta, "spec": spec}
        )
        driver.complete(driver.until_asked(), "s3://bucket/savepoint-1")
        name = "sparkstate_operator"
        operated.cluster.until(
            lambda: web.metric(f'{name}_snapshots_total{{result="completed"}}') == 1,
            "the savepoint is counted",
        )
        assert web.metric(f'{name}_jobs{{phase="Running"}}') == 1
        assert web.metric(f"{name}_attempts_total") == 1
        assert web.metric(f"{name}_leading") == 1
        made = f'{name}_api_requests_total{{resource="pods",status="201",verb="create"}}'
        assert web.metric(made) == 1
        assert web.metric(f'{name}_reconciles_total{{kind="job",result="done"}}') > 1
        assert web.metric(f'{name}_phase_seconds_count{{phase="Starting"}}') == 1
