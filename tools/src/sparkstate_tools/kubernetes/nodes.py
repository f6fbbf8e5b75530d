"""A cluster with nodes on this machine: control plane, nodes, their network, and an S3 server that pods reach.

Everything lives in network namespaces named ``sst-<run>-…`` without a way out; ports of the host's loopback lead
to the API server and to the S3 server. When a run starts, it clears the remains of a killed one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparkstate_tools.kubernetes import addresses, build, dns, images, netns, node
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.kubernetes.control_plane import ADDRESS, ControlPlane, Place
from sparkstate_tools.kubernetes.node import Names, Node
from sparkstate_tools.parts import golang
from sparkstate_tools.processes import end_recorded, start_time

MOST_NODES = 3
RUNS = Path("/run/sparkstate-tests")
PACKAGES = {
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
}
"""Program to Debian package. The CNI plugins are files, see ``lacking``."""
PLUGINS = ("/usr/lib/cni/bridge", "/opt/cni/bin/bridge")
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


OVERLAY = (
    'cd "$1" && mkdir lower upper work all && echo here > lower/file && '
    "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work all && cat all/file && umount all"
)


class CannotRunNodes(RuntimeError):
    """This machine may not run nodes; the message says why and what to do."""


@dataclass
class NodeCluster:
    """A running cluster with nodes."""

    cluster: Cluster
    nodes: list[Node]
    door: netns.SocketFactory
    """Makes sockets beside the control plane, where pods reach them at ``ADDRESS``."""
    run: str
    folder: Path
    stack: contextlib.ExitStack
    names: dns.NameServer
    """Of services that pods reach by name."""
    archives: list[Path] = field(default_factory=list)
    """The images that every node has."""

    @property
    def inside(self) -> tuple[str, ...]:
        """The words with which a command begins to run beside the control plane."""
        return netns.inside(Names(self.run, 1).bridge)

    def add_node(self) -> Node:
        """One more node, ready, with the same images; it ends with the cluster."""
        assert self.cluster.plane is not None
        number = len(self.nodes) + 1
        if number > MOST_NODES:
            raise ValueError(f"{number} nodes; a cluster of the tests has {MOST_NODES} at most")
        names = Names(self.run, number)
        added = Node(names, self.folder / names.node, self.cluster.plane)
        self.stack.callback(added.stop)
        added.connect([each.names for each in self.nodes])
        added.start()
        for archive in self.archives:
            added.import_image(archive)
        added.until_ready()
        self.nodes.append(added)
        return added

    def import_image(self, archive: Path) -> None:
        """Loads an image archive into every node, and into those that come later; once for each archive."""
        if archive not in self.archives:
            for each in self.nodes:
                each.import_image(archive)
            self.archives.append(archive)

    def offer(self, port: int, target: netns.Address) -> str:
        """Lets pods reach a server of the host's loopback, at that port (0: any);
        returns host and port as pods see it."""
        forward = netns.out_of(self.door, (ADDRESS, port), target)
        self.stack.callback(forward.close)
        return addresses.at(ADDRESS, forward.port)

    def reach(self, address: netns.Address) -> int:
        """The port of the host's loopback that leads to an address beside the control plane."""
        forward = netns.into(self.door, address)
        self.stack.callback(forward.close)
        return forward.port


def require() -> None:
    """Raises ``CannotRunNodes`` where nodes cannot run; installs Debian packages that are missing, as root."""
    if os.uname().sysname != "Linux":
        raise CannotRunNodes("nodes need Linux")
    if os.geteuid() != 0:
        raise CannotRunNodes(
            "nodes (kubelet, containerd, network namespaces) need root, and this is another user"
        )
    missing = lacking()
    if missing and shutil.which("apt-get"):
        golang.say(f"installing {' '.join(missing)}")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
            subprocess.run(["apt-get", *command], env=quiet, check=False, stdout=subprocess.DEVNULL)
    if lacking():
        raise CannotRunNodes(
            f"nodes need {' '.join(lacking())} (the names of Debian's packages): install them"
        )
    _try_namespaces()


def lacking() -> list[str]:
    """Debian packages of which something is missing here."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    missing = [package for program, package in PACKAGES.items() if not shutil.which(program, path=path)]
    if not any(Path(plugin).exists() for plugin in PLUGINS):
        missing.append("containernetworking-plugins")
    return missing


def _try_namespaces() -> None:
    """Makes and removes the things that a restricted container may not make: namespaces, links, packet filters,
    layered file systems (not on top of another one, as in many containers), control groups."""
    name = f"sst-{secrets.token_hex(3)}-try"
    try:
        netns.add(name)
        netns.ip("-n", name, "link", "add", "br0", "type", "bridge")
        netns.ip("-n", name, "link", "add", "a0", "type", "veth", "peer", "name", "b0")
        inside = netns.inside(name)
        _run(*inside, "sh", "-c", f"PATH=$PATH:{SYSTEM_PATH} nft add table ip sparkstate-try")
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir="/var/tmp") as folder:
            _run("unshare", "--mount", "--propagation", "private", "sh", "-c", OVERLAY, "sh", folder)
        node.make_cgroups(name)
    except (RuntimeError, OSError) as error:
        raise CannotRunNodes(f"this machine does not let root run nodes: {error}") from error
    finally:
        node.clear(name)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()[-300:]}")


@contextlib.contextmanager
def running(manager_flags: Sequence[str] = ()) -> Iterator[NodeCluster]:
    """A cluster with one node that is ready; gone afterwards without a trace."""
    require()
    clear_leftovers()
    build.binaries(build.PARTS)
    run = f"sst-{secrets.token_hex(3)}"
    folder = Path(tempfile.mkdtemp(prefix=f"{run}-", dir="/var/tmp"))
    _record(run, folder)
    with contextlib.ExitStack() as stack:
        stack.callback(_forget, run, folder)
        yield _start(stack, run, folder, manager_flags)


def _start(stack: contextlib.ExitStack, run: str, folder: Path, manager_flags: Sequence[str]) -> NodeCluster:
    middle = Names(run, 1).bridge
    netns.add(middle)
    stack.callback(netns.remove, middle)
    netns.ip("-n", middle, "link", "add", "br0", "type", "bridge")
    netns.ip("-n", middle, "addr", "add", f"{ADDRESS}/{addresses.HERE.bits}", "dev", "br0", *netns.NO_PROBING)
    netns.ip("-n", middle, "link", "set", "br0", "up")
    door = netns.SocketFactory(middle)
    stack.callback(door.close)
    forward = netns.into(door, ("127.0.0.1", 6443))
    stack.callback(forward.close)

    names = dns.NameServer(door.listen_for_datagrams((ADDRESS, 53)))
    stack.callback(names.close)

    place = Place(
        2379, 2380, 6443, bind=addresses.HERE.everywhere, inside=netns.inside(middle), reached_by=forward.port
    )
    plane = ControlPlane(folder / "plane", place, manager_flags)
    stack.callback(plane.stop)
    plane.start()
    cluster = Cluster(plane.admin, folder, plane)
    stack.callback(cluster.close)

    whole = NodeCluster(cluster, [], door, run, folder, stack, names)
    whole.import_image(images.pause(folder))
    whole.add_node()
    return whole


# --- what a killed run leaves ------------------------------------------------------------------------------


def _record(run: str, folder: Path) -> None:
    RUNS.mkdir(exist_ok=True)
    owner = os.getpid()
    says = {"folder": str(folder), "owner": owner, "started": start_time(owner)}
    (RUNS / run).write_text(json.dumps(says))


def _forget(run: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (RUNS / run).unlink(missing_ok=True)


def clear_leftovers() -> None:
    """Ends and removes clusters whose test process is gone. A kubelet that lives on would kill the pods of a new
    one that has its name."""
    for record in RUNS.glob("sst-*"):
        says = json.loads(record.read_text())
        if start_time(says["owner"]) == says["started"]:
            continue
        golang.say(f"clearing what an earlier run left: {record.name}")
        folder, names = (
            Path(says["folder"]),
            [Names(record.name, number + 1) for number in range(MOST_NODES)],
        )
        for part in (*(folder / each.node for each in names), folder / "plane"):
            end_recorded(part)
        for each in names:
            node.clear(each.namespace)
        netns.remove(names[0].bridge)
        _forget(record.name, folder)
