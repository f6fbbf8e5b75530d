"""A Kubernetes control plane of the tests' own: etcd, API server, controller manager and scheduler.

By default on the loopback, as an ordinary user, with ports of its own; RBAC and the audit log are on. Inside a
network namespace (``inside``) it takes the usual ports and the address that nodes reach it by.
"""

from __future__ import annotations

import contextlib
import shutil
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.kubernetes import addresses, audit, build, pki
from sparkstate_tools.parts import golang
from sparkstate_tools.processes import Processes, free_port

SERVICES = addresses.HERE.services
FIRST_SERVICE = addresses.HERE.first_service
PODS = addresses.HERE.pods
ADDRESS = addresses.HERE.address
START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Place:
    """Where a control plane listens."""

    etcd: int
    etcd_peers: int
    port: int
    bind: str = "127.0.0.1"
    inside: tuple[str, ...] = ()
    """The command that enters its network namespace; empty on the host itself."""
    reached_by: int | None = None
    """The host's port that leads to ``port``, where they are not the same."""

    @property
    def server(self) -> str:
        """Its URL for the tests."""
        return f"https://127.0.0.1:{self.reached_by or self.port}"

    @property
    def server_inside(self) -> str:
        """Its URL for what runs beside it."""
        return f"https://127.0.0.1:{self.port}"


def on_the_loopback() -> Place:
    """The host's loopback, three ports that are free."""
    return Place(free_port(), free_port(), free_port())


class ControlPlane:
    """Four processes, their certificates and data below one folder. ``start`` and ``stop`` once each."""

    def __init__(self, folder: Path, place: Place | None = None, manager_flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self.place = place or on_the_loopback()
        self.manager_flags = manager_flags
        self.processes = Processes(folder)
        self.authority = pki.Authority(folder / "pki")
        self.audit = audit.AuditLog(folder / "audit.log")
        self.admin = self.user_config("admin", "tests-admin", "system:masters")

    def user_config(self, name: str, user: str, group: str | None = None, server: str | None = None) -> Path:
        """A kubeconfig with a certificate for that user; at ``folder/NAME.kubeconfig``."""
        pair = self.authority.client(name, user, group)
        path = self.folder / f"{name}.kubeconfig"
        where = server or self.place.server
        return pki.kubeconfig(path, where, self.authority.certificate, pki.by_certificate(pair))

    def start(self) -> None:
        """Returns when pods could be created: the default ServiceAccount is there. About ten seconds."""
        self._start_etcd(build.binary("etcd"))
        self._start_api_server(build.binary("kube-apiserver"))
        # Both retry until the API server answers; that it does is waited for once, below.
        self._start_controllers(build.binary("kube-controller-manager"), build.binary("kube-scheduler"))
        self.processes.until(lambda: self.answers("/readyz"), START_TIMEOUT_S, "the API server is ready")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.processes.until(lambda: self.answers(account), START_TIMEOUT_S, "the controllers work")

    def stop(self) -> None:
        """Ends all four; the data is nobody's afterwards."""
        self.processes.stop_all()

    def answers(self, path: str) -> bool:
        """Whether the API server answers a GET by an administrator with 200."""
        trust = ssl.create_default_context(cafile=str(self.authority.certificate))
        trust.load_cert_chain(self.folder / "pki" / "admin.crt", self.folder / "pki" / "admin.key")
        try:
            with urllib.request.urlopen(self.place.server + path, timeout=5, context=trust) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _start_etcd(self, program: Path) -> None:
        clients, peers = (f"http://127.0.0.1:{port}" for port in (self.place.etcd, self.place.etcd_peers))
        command: list[str | Path] = [
            program,
            "--name=tests",
            f"--data-dir={self.folder / 'etcd'}",
            "--log-level=warn",
        ]
        command += [f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"]
        command += [f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"]
        # Nothing here must survive a power cut.
        command += [f"--initial-cluster=tests={peers}", "--unsafe-no-fsync"]
        self.processes.start("etcd", command, inside=self.place.inside)

    def _start_api_server(self, program: Path) -> None:
        place, ca = self.place, self.authority
        names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        reached = ["127.0.0.1", FIRST_SERVICE, ADDRESS]
        serving = ca.server("apiserver", [f"DNS:{name}" for name in names] + [f"IP:{ip}" for ip in reached])
        to_kubelets = ca.client("apiserver-to-kubelets", "kube-apiserver", "system:masters")
        signing = ca.signing_key()
        flags = {
            "etcd-servers": f"http://127.0.0.1:{place.etcd}",
            "bind-address": place.bind,
            "secure-port": place.port,
            # A loopback address is refused here; outside of a namespace nobody asks for it.
            "advertise-address": ADDRESS,
            "service-cluster-ip-range": SERVICES,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "client-ca-file": ca.certificate,
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": signing.certificate,
            "service-account-signing-key-file": signing.key,
            "kubelet-certificate-authority": ca.certificate,
            "kubelet-client-certificate": to_kubelets.certificate,
            "kubelet-client-key": to_kubelets.key,
            "kubelet-preferred-address-types": "InternalIP",
            "audit-policy-file": audit.write_policy(self.folder / "audit-policy.yaml"),
            "audit-log-path": self.audit.path,
            "audit-log-mode": "blocking",
            # The tests read the log by position: it must stay one file.
            "audit-log-maxsize": 4096,
        }
        command: list[str | Path] = [program, *(f"--{name}={value}" for name, value in flags.items())]
        self.processes.start("kube-apiserver", command, inside=place.inside)

    def _start_controllers(self, manager: Path, scheduler: Path) -> None:
        ca, inside = self.authority, self.place.inside
        config = self.user_config(
            "controllers", "system:kube-controller-manager", server=self.place.server_inside
        )
        flags = {
            "kubeconfig": config,
            "use-service-account-credentials": "true",
            "service-account-private-key-file": self.folder / "pki" / "sa.key",
            "root-ca-file": ca.certificate,
            "cluster-signing-cert-file": ca.certificate,
            "cluster-signing-key-file": ca.key,
            "leader-elect": "false",
            "secure-port": 0,
        }
        given = [f"--{name}={value}" for name, value in flags.items()]
        self.processes.start("kube-controller-manager", [manager, *given, *self.manager_flags], inside=inside)
        config = self.user_config("scheduler", "system:kube-scheduler", server=self.place.server_inside)
        command: list[str | Path] = [
            scheduler,
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--secure-port=0",
        ]
        self.processes.start("kube-scheduler", command, inside=inside)


@contextlib.contextmanager
def running() -> Iterator[ControlPlane]:
    """A control plane on the loopback, in a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="sparkstate-cluster-"))
    started = time.monotonic()
    plane = ControlPlane(folder)
    try:
        plane.start()
        golang.say(f"a control plane was started in {time.monotonic() - started:.1f} s")
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)
