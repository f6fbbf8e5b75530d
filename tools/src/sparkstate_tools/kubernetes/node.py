"""A node of a test cluster on this machine: containerd, kubelet and kube-proxy in namespaces of their own.

It needs root and Linux. The network namespace has one veth to the control plane's bridge; the mount namespace
keeps the node's mounts from the host. cgroups of version 1 and 2 both do; every group of the node lies below one
named like it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sparkstate_tools.kubernetes import addresses, build, containerd, netns
from sparkstate_tools.kubernetes.control_plane import ADDRESS, PODS, ControlPlane
from sparkstate_tools.processes import Processes

API_SERVER = f"https://{addresses.at(ADDRESS, 6443)}"
CGROUPS = Path("/sys/fs/cgroup")
CPU_WEIGHT = 4
"""All pods of a node together count as so many processes of the machine; as one they would starve beside others."""
START_TIMEOUT_S = 180.0
# The kubelet insists on these and sets them itself where it may; here it sees files that say so already, and the
# host's own values stay.
SYSCTLS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}


@dataclass(frozen=True)
class Names:
    """The names of a node in each place; ``run`` tells the nodes of two runs on one machine apart."""

    run: str
    number: int

    @property
    def node(self) -> str:
        """Name of the Node object."""
        return f"node-{self.number}"

    @property
    def namespace(self) -> str:
        """Network namespace, cgroup and folder below ``/run``."""
        return f"{self.run}-n{self.number}"

    @property
    def bridge(self) -> str:
        """The control plane's namespace."""
        return f"{self.run}-cp"

    @property
    def link(self) -> str:
        """The bridge's end of the veth pair; interface names have 15 characters at most."""
        return f"v{self.number}"

    @property
    def address(self) -> str:
        """The node's address."""
        return addresses.HERE.nodes.format(self.number)

    @property
    def pods(self) -> str:
        """The addresses of its pods."""
        return addresses.HERE.pods_of_node.format(self.number)

    @property
    def volatile(self) -> Path:
        """For sockets and the mount namespace's file; kept short, socket paths have 107 characters at most."""
        return Path("/run") / self.namespace


class Node:
    """One node: ``connect``, ``start``, ``until_ready``, and ``stop`` in the end."""

    def __init__(self, names: Names, folder: Path, plane: ControlPlane) -> None:
        self.names = names
        self.folder = folder
        self.plane = plane
        self.processes = Processes(folder)
        self.socket = names.volatile / "containerd.sock"
        self.containerd = containerd.Config(folder, names.volatile / "containerd", self.socket, names.pods)

    @property
    def enter(self) -> list[str]:
        """The command that enters its namespaces. Not ``ip netns exec``, which hides the cgroups."""
        mounts = self.names.volatile / "mnt"
        return ["nsenter", f"--net={netns.file_of(self.names.namespace)}", f"--mount={mounts}"]

    # --- network -------------------------------------------------------------------------------------------

    def connect(self, others: list[Names]) -> None:
        """Its namespace, a veth to the bridge, and routes from and to the pods of the nodes that are there."""
        own, bridge = self.names.namespace, self.names.bridge
        netns.add(own)
        netns.ip(
            "-n", bridge, "link", "add", self.names.link, "type", "veth", "peer", "name", "eth0", "netns", own
        )
        netns.ip("-n", bridge, "link", "set", self.names.link, "master", "br0", "up")
        netns.ip(
            "-n",
            own,
            "addr",
            "add",
            f"{self.names.address}/{addresses.HERE.bits}",
            "dev",
            "eth0",
            *netns.NO_PROBING,
        )
        netns.ip("-n", own, "link", "set", "eth0", "up")
        netns.ip("-n", own, "route", "add", "default", "via", ADDRESS)
        netns.ip("-n", bridge, "route", "add", self.names.pods, "via", self.names.address)
        for other in others:
            netns.ip("-n", own, "route", "add", other.pods, "via", other.address)
            netns.ip("-n", other.namespace, "route", "add", self.names.pods, "via", self.names.address)

    def cut(self) -> None:
        """A network partition: everything on the node runs on, nothing reaches it or leaves it."""
        netns.ip("-n", self.names.bridge, "link", "set", self.names.link, "down")

    def heal(self) -> None:
        """Ends the partition."""
        netns.ip("-n", self.names.bridge, "link", "set", self.names.link, "up")

    # --- life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts its programs; ``until_ready`` waits for the node."""
        self._make_mounts()
        make_cgroups(self.names.namespace)
        programs = build.binaries(build.NODE)
        path = f"{programs['containerd-shim-runc-v2'].parent}:{os.environ['PATH']}:/usr/sbin:/sbin"
        command: list[str | Path] = [programs["containerd"], "--config", self.containerd.write()]
        self.processes.start("containerd", command, inside=self.enter, environment={"PATH": path})
        self.processes.until(lambda: self.ctr("version", check=False) is not None, 30, "containerd answers")
        self._start_kubelet(programs["kubelet"], path)
        self._start_proxy(programs["kube-proxy"], path)

    def until_ready(self) -> None:
        """Returns when pods can be scheduled here."""
        self.processes.until(self._ready, START_TIMEOUT_S, f"{self.names.node} is ready")

    def import_image(self, archive: Path) -> None:
        """Loads the images of an archive (Docker's or OCI's format) into the node."""
        self.ctr("-n", "k8s.io", "images", "import", "--digests=false", "--local", str(archive))

    def ctr(self, *arguments: str, check: bool = True) -> str | None:
        """Runs containerd's client; None instead of an error without ``check``."""
        command = [*self.enter, str(build.binary("ctr")), "-a", str(self.socket), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        if check:
            raise RuntimeError(f"ctr {' '.join(arguments)}: {done.stderr.strip()[-400:]}")
        return None

    def stop(self) -> None:
        """Ends the kubelet, then the pods, then containerd; leaves no mount, namespace or cgroup behind."""
        for name in ("kube-proxy", "kubelet"):
            self.processes.stop(name)
        if "containerd" in self.processes.running:
            self._end_pods()
        self.processes.stop_all()
        clear(self.names.namespace)

    def _end_pods(self) -> None:
        for task in (self.ctr("-n", "k8s.io", "tasks", "ls", "-q", check=False) or "").split():
            self.ctr("-n", "k8s.io", "tasks", "rm", "-f", task, check=False)

    def _ready(self) -> bool:
        self._check()
        kubectl: list[str | Path] = [build.binary("kubectl"), "--kubeconfig", self.plane.admin]
        asked = [*kubectl, "get", "node", self.names.node, "-o", "json"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        conditions = json.loads(said)["status"].get("conditions", []) if said else []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _check(self) -> None:
        for running in self.processes.running.values():
            running.check()

    def _make_mounts(self) -> None:
        """The mount namespace, kept by a file in a folder whose mounts are private (the kernel asks for that)."""
        volatile = self.names.volatile
        volatile.mkdir()
        subprocess.run(["mount", "--bind", volatile, volatile], check=True)
        subprocess.run(["mount", "--make-private", volatile], check=True)
        (volatile / "mnt").touch()
        subprocess.run(
            ["unshare", f"--mount={volatile / 'mnt'}", "--propagation", "private", "true"], check=True
        )
        shadows = self.folder / "sysctl"
        shadows.mkdir(exist_ok=True)
        # Pods' network namespaces are kept as files there; so they end with this mount namespace.
        steps = ["mount --make-rshared /", "mount -t tmpfs tmpfs /run/netns"]
        for path, value in SYSCTLS.items():
            shadow = shadows / path.replace("/", "-")
            shadow.write_text(value)
            steps.append(f"mount --bind {shadow} /proc/sys/{path}")
        subprocess.run([*self.enter, "sh", "-c", " && ".join(steps)], check=True)

    # --- configuration -------------------------------------------------------------------------------------

    def _start_kubelet(self, program: Path, path: str) -> None:
        ca, name = self.plane.authority, self.names.node
        serving = ca.server(f"{name}-serving", [f"DNS:{name}", f"IP:{self.names.address}"])
        (self.folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        settings: dict[str, Any] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.names.address,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(ca.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.names.namespace}",
            "failCgroupV1": False,
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "podLogsDir": str(self.folder / "pod-logs"),
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.folder / "resolv.conf"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            "serializeImagePulls": False,
        }
        config = self.folder / "kubelet.yaml"
        config.write_text(yaml.safe_dump(settings))
        known = self.plane.user_config(name, f"system:node:{name}", "system:nodes", API_SERVER)
        command: list[str | Path] = [program, f"--config={config}", f"--kubeconfig={known}"]
        command += [f"--hostname-override={name}"]
        command += [f"--node-ip={self.names.address}", f"--root-dir={self.folder / 'kubelet'}"]
        command += [f"--cert-dir={self.folder / 'kubelet-pki'}"]
        self.processes.start("kubelet", command, inside=self.enter, environment={"PATH": path})

    def _start_proxy(self, program: Path, path: str) -> None:
        name = f"{self.names.node}-proxy"
        known = self.plane.user_config(name, "system:kube-proxy", server=API_SERVER)
        settings = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(known)},
            "mode": "nftables",
            "clusterCIDR": PODS,
            "conntrack": {"maxPerCore": 0, "min": 0},
        }
        config = self.folder / "kube-proxy.yaml"
        config.write_text(yaml.safe_dump(settings))
        command: list[str | Path] = [program, f"--config={config}", f"--hostname-override={self.names.node}"]
        self.processes.start("kube-proxy", command, inside=self.enter, environment={"PATH": path})


def make_cgroups(name: str) -> None:
    """The node's group in each hierarchy; the kubelet wants it to be there."""
    if (CGROUPS / "cgroup.controllers").exists():
        wanted = [f"+{each}" for each in (CGROUPS / "cgroup.controllers").read_text().split()]
        with contextlib.suppress(OSError):  # those that are delegated already, or cannot be
            (CGROUPS / "cgroup.subtree_control").write_text(" ".join(wanted))
        (CGROUPS / name).mkdir(exist_ok=True)
        _write(CGROUPS / name / "cpu.weight", 100 * CPU_WEIGHT)
        return
    for hierarchy in (path for path in CGROUPS.iterdir() if not path.is_symlink() and path.name != "unified"):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())
        _write(group / "cpu.shares", 1024 * CPU_WEIGHT)


def _write(file: Path, value: int) -> None:
    if file.exists():
        file.write_text(str(value))


def clear(namespace: str) -> None:
    """Removes what a node was: its processes by cgroup and by mount namespace, then cgroups, mounts, network.

    Also for a node whose run was killed: what containerd had started is found by where it lives.
    """
    volatile = Path("/run") / namespace
    groups = [CGROUPS / namespace, *CGROUPS.glob(f"*/{namespace}")]
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        left = {pid for group in groups for pid in _members(group)}
        left |= set(netns.processes_in("mnt", volatile / "mnt"))
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    for group in groups:
        for folder in sorted(group.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
    for mount in (volatile / "mnt", volatile):
        subprocess.run(["umount", mount], capture_output=True, check=False)
    netns.remove(namespace)
    shutil.rmtree(volatile, ignore_errors=True)


def _members(group: Path) -> list[int]:
    pids = []
    for file in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            pids += [int(line) for line in file.read_text().split()]
    return pids
