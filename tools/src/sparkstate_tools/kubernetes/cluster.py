"""A cluster as the tests see it, whoever made it: clients, namespaces, ServiceAccounts, waiting.

``tests/cluster/conftest.py`` hands it out as the fixture ``cluster``.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from kubernetes import client, config, dynamic

from sparkstate_tools.kubernetes import build, pki, reading
from sparkstate_tools.kubernetes.api_faults import FaultProxy
from sparkstate_tools.kubernetes.audit import AuditLog
from sparkstate_tools.kubernetes.control_plane import ControlPlane

FOREIGN = "SPARKSTATE_TEST_KUBECONFIG"
T = TypeVar("T")


class CommandFailed(AssertionError):
    """kubectl or helm ended with an error; the message is what it said. ``printed``: its standard output until then."""

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


@dataclass
class Cluster:
    """A running cluster. Everything is done as its administrator unless a kubeconfig says otherwise."""

    kubeconfig: Path
    folder: Path
    """For files of this run, such as the kubeconfigs of ServiceAccounts."""
    plane: ControlPlane | None = None
    """The control plane, when it is ours; None for a foreign cluster."""
    _clients: dict[Path, client.ApiClient] = field(default_factory=dict)

    @property
    def foreign(self) -> bool:
        """Whether somebody else runs it: then there is no audit log, and no process may be touched."""
        return self.plane is None

    @property
    def audit(self) -> AuditLog:
        """The requests to the API server; of our own cluster only."""
        if self.plane is None:
            raise RuntimeError("a foreign cluster has no audit log: mark the test `own_cluster`")
        return self.plane.audit

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._document()["clusters"][0]["cluster"]["server"])

    # --- clients -------------------------------------------------------------------------------------------

    def api(self, kubeconfig: Path | None = None) -> client.ApiClient:
        """A client of the ``kubernetes`` package; one per kubeconfig, closed at the end of the run."""
        path = kubeconfig or self.kubeconfig
        if path not in self._clients:
            settings = client.Configuration()
            config.load_kube_config(str(path), client_configuration=settings, persist_config=False)
            self._clients[path] = client.ApiClient(settings)
        return self._clients[path]

    def core(self) -> client.CoreV1Api:
        """The administrator's client for pods, namespaces, Secrets and so on."""
        return client.CoreV1Api(self.api())

    def objects(self, api_version: str, kind: str) -> Any:
        """The administrator's dynamic client for one kind: ``get``, ``create``, ``patch``, ``delete`` …"""
        return dynamic.DynamicClient(self.api()).resources.get(api_version=api_version, kind=kind)

    def kubectl(self, *arguments: str | Path, text: str | None = None, kubeconfig: Path | None = None) -> str:
        """Runs kubectl (``text`` to its stdin) and returns stdout; raises ``CommandFailed``."""
        return self._command("kubectl", arguments, text, kubeconfig)

    def helm(self, *arguments: str | Path, kubeconfig: Path | None = None) -> str:
        """Runs helm and returns stdout; raises ``CommandFailed``."""
        return self._command("helm", arguments, None, kubeconfig)

    def apply(self, *documents: Mapping[str, Any], kubeconfig: Path | None = None) -> None:
        """``kubectl apply --server-side`` of these objects."""
        text = yaml.safe_dump_all([dict(document) for document in documents])
        self.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", text=text, kubeconfig=kubeconfig
        )

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """One object, or None when there is none of that name."""
        if namespace and reading.knows(kind):
            return reading.get(self.api(), kind, name, namespace)
        where = ["-n", namespace] if namespace else []
        said = self.kubectl("get", kind, name, *where, "-o", "json", "--ignore-not-found")
        return dict(json.loads(said)) if said else None

    def items(self, kind: str, namespace: str | None = None, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind, in one namespace or in all of them."""
        if reading.knows(kind):
            return reading.items(self.api(), kind, namespace, selector)
        where = ["-n", namespace] if namespace else ["-A"]
        chosen = ["-l", selector] if selector else []
        return list(json.loads(self.kubectl("get", kind, *where, *chosen, "-o", "json"))["items"])

    def install_crds(self, folder: Path) -> None:
        """Applies every CRD in the folder and returns when the API serves them."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", folder)
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", folder)

    # --- namespaces and identities -------------------------------------------------------------------------

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> Iterator[str]:
        """A namespace with a name of its own; its deletion is begun afterwards and not waited for."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": dict(labels or {})},
            }
        )
        self.until(lambda: self.get("serviceaccount", "default", name), f"{name} has its ServiceAccount")
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def kubeconfig_of(self, namespace: str, account: str, server: str | None = None) -> Path:
        """A kubeconfig with a token of a ServiceAccount, with exactly its rights, valid for a day.

        ``server`` is another way to the API server, such as a ``FaultProxy``'s.
        """
        token = self.kubectl("create", "token", account, "-n", namespace, "--duration=24h").strip()
        path = self.folder / f"{namespace}-{account}-{secrets.token_hex(3)}.kubeconfig"
        return self._kubeconfig(path, {"token": token}, namespace, server)

    @contextlib.contextmanager
    def faults(self) -> Iterator[FaultProxy]:
        """A proxy before the API server that refuses, drops or holds requests as told; our own cluster only."""
        if self.plane is None:
            raise RuntimeError("no proxy before a foreign cluster: mark the test `own_cluster`")
        certificate = self.plane.authority.server("proxy", ["DNS:localhost", "IP:127.0.0.1"])
        with FaultProxy.running(self.server, self.plane.authority.certificate, certificate) as proxy:
            yield proxy

    # --- waiting -------------------------------------------------------------------------------------------

    def until(
        self, probe: Callable[[], T | None], what: str, timeout_s: float = 90, every_s: float = 0.1
    ) -> T:
        """Calls ``probe`` until what it returns is true, and returns that. ``what`` names the wish in the error."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = probe()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"after {timeout_s:.0f} s it is not so that {what}")
            time.sleep(every_s)

    def until_gone(self, kind: str, name: str, namespace: str | None = None, timeout_s: float = 90) -> None:
        """Waits until there is no object of that name."""
        self.until(lambda: self.get(kind, name, namespace) is None, f"{kind} {name} is gone", timeout_s)

    # --- inside --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the clients; the cluster runs on."""
        for each in self._clients.values():
            each.close()

    def _command(
        self, program: str, arguments: Sequence[str | Path], text: str | None, kubeconfig: Path | None
    ) -> str:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig)}
        command = [str(build.binary(program)), *map(str, arguments)]
        done = subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = f"{program} {' '.join(map(str, arguments))}: {done.stderr.strip()}"
            raise CommandFailed(said, done.stdout)
        return done.stdout

    def _document(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self.kubeconfig.read_text()))

    def _kubeconfig(self, path: Path, user: Mapping[str, Any], namespace: str, server: str | None) -> Path:
        if self.plane is not None:
            return pki.kubeconfig(
                path, server or self.server, self.plane.authority.certificate, user, namespace
            )
        document = self._document()
        document["users"] = [{"name": "user", "user": dict(user)}]
        document["contexts"][0]["context"].update(user="user", namespace=namespace)
        document["current-context"] = document["contexts"][0]["name"]
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path


def foreign(folder: Path) -> Cluster | None:
    """The cluster that ``SPARKSTATE_TEST_KUBECONFIG`` names. ``KUBECONFIG`` is never looked at: tests delete
    namespaces and replace CRDs."""
    named = os.environ.get(FOREIGN)
    if not named:
        return None
    if not Path(named).is_file():
        raise RuntimeError(f"{FOREIGN} is {named}, and there is no such file")
    # Its current context alone, with the certificates inlined.
    program = str(build.binary("kubectl"))
    command = [program, "--kubeconfig", named, "config", "view", "--minify", "--flatten", "--raw"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{FOREIGN} is {named}: {done.stderr.strip()}")
    path = folder / "admin.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(done.stdout)
    return Cluster(path, folder)
