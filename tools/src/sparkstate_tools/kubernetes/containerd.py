"""How a node's containerd is configured: its folders, the network of its pods, the registries that it pulls from."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.kubernetes import addresses

PAUSE = "registry.k8s.io/pause:3.10"
TEXT = """\
version = 3
root = "{root}"
state = "{state}"
oom_score = 0
[grpc]
  address = "{socket}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "{registries}"
[plugins.'io.containerd.cri.v1.runtime']
  # Where a container may not raise its priority against the out-of-memory killer, no pod would start otherwise.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
        Root = "{state}/runc"
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
    conf_dir = "{networks}"
[plugins.'io.containerd.grpc.v1.cri']
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
[plugins.'io.containerd.internal.v1.opt']
  path = "{opt}"
"""


@dataclass(frozen=True)
class Config:
    """Of one node, below ``folder``. ``state``: for sockets and mounts; ``pods``: the addresses of the node's pods."""

    folder: Path
    state: Path
    socket: Path
    pods: str

    def write(self) -> Path:
        """Writes it, and returns the file that containerd is given."""
        networks = self.folder / "cni"
        networks.mkdir(exist_ok=True)
        (networks / "10-pods.conflist").write_text(json.dumps(self._network()))
        path = self.folder / "containerd.toml"
        path.write_text(
            TEXT.format(
                root=self.folder / "containerd",
                state=self.state,
                socket=self.socket,
                pause=PAUSE,
                registries=self._registries,
                runc=shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"),
                networks=networks,
                opt=self.folder / "opt",
            )
        )
        return path

    def without_tls(self, registry: str) -> None:
        """Lets the node pull from that registry (host and port) by HTTP. containerd looks there before each pull."""
        folder = self._registries / registry
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(f'server = "http://{registry}"\n')

    @property
    def _registries(self) -> Path:
        return self.folder / "registries"

    def _network(self) -> dict[str, object]:
        given = {
            "type": "host-local",
            "dataDir": str(self.folder / "addresses"),
            "ranges": [[{"subnet": self.pods}]],
            "routes": [{"dst": addresses.HERE.default}],
        }
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": given,
        }
        plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
