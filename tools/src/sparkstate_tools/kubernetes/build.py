"""The programs of a real Kubernetes, for the tests: found, or built once from their Go modules.

A folder named by ``KUBEBUILDER_ASSETS`` (users of envtest have one) is asked first, for binaries of the same
minor version. The others are built into the user's cache, ``sparkstate/<product>/<version>/``; about
20 minutes in all on two cores. ``python -m sparkstate_tools.kubernetes.build [NAME…]`` builds by hand.

Kubernetes' own ``go.mod`` replaces its staging modules by folders that the published module does not carry;
each is replaced here by the module published beside it (``k8s.io/x v0.36.3`` belongs to Kubernetes 1.36.3).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.parts import golang

KUBERNETES = "1.36.3"
GO_LANGUAGE = "1.26.0"
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True)
class Part:
    """One program."""

    name: str
    product: str
    version: str
    package: str
    seconds: int
    """Roughly how long it takes on two cores with empty caches, in this order of building."""
    version_arguments: tuple[str, ...] = ("--version",)

    @property
    def target(self) -> Path:
        """Where it lies in the cache."""
        return golang.cache() / self.product / self.version / self.name


def _kubernetes(name: str, seconds: int, version_arguments: tuple[str, ...] = ("--version",)) -> Part:
    return Part(name, "kubernetes", KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", seconds, version_arguments)


def _containerd(name: str, seconds: int, version_arguments: tuple[str, ...] = ("--version",)) -> Part:
    package = f"github.com/containerd/containerd/v2/cmd/{name}"
    return Part(name, "containerd", "2.4.2", package, seconds, version_arguments)


CONTROL_PLANE = (
    Part("etcd", "etcd", "3.6.16", "go.etcd.io/etcd/server/v3", 90),
    _kubernetes("kube-apiserver", 540),
    _kubernetes("kube-controller-manager", 90),
    _kubernetes("kube-scheduler", 10),
    _kubernetes("kubectl", 30, ("version", "--client")),
    Part("helm", "helm", "3.22.0", "helm.sh/helm/v3/cmd/helm", 150, ("version", "--short")),
)
NODE = (
    _kubernetes("kubelet", 35),
    _kubernetes("kube-proxy", 20),
    _containerd("containerd", 150),
    _containerd("containerd-shim-runc-v2", 10, ("-v",)),
    _containerd("ctr", 10),
)
PARTS = (*CONTROL_PLANE, *NODE)


def binary(name: str) -> Path:
    """The program of that name; built now if it is nowhere."""
    part = next(part for part in PARTS if part.name == name)
    given = from_assets(part)
    if given:
        return given
    if not part.target.exists():
        build([part])
    return part.target


def binaries(parts: Iterable[Part] = CONTROL_PLANE) -> dict[str, Path]:
    """The programs by name; what is missing is built, one after the other."""
    wanted = list(parts)
    given = {part.name: from_assets(part) for part in wanted}
    build([part for part in wanted if given[part.name] is None and not part.target.exists()])
    return {part.name: given[part.name] or part.target for part in wanted}


def from_assets(part: Part, folder: str | None = None) -> Path | None:
    """The program in ``KUBEBUILDER_ASSETS``, if there is one and its minor version is ours."""
    named = folder or os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        return None
    candidate = Path(named) / part.name
    if not candidate.exists():
        return None
    answer = subprocess.run([candidate, *part.version_arguments], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+\.\d+)\.\d+", answer.stdout)
    wanted = part.version.rsplit(".", 1)[0]
    if found and found[1] == wanted:
        return candidate
    golang.say(f"{candidate} is not used: it is {found[0] if found else 'of no known version'}, not {wanted}")
    return None


def build(parts: Sequence[Part]) -> None:
    """Builds these, with a line for each that says how long it will take."""
    for number, part in enumerate(parts, 1):
        with golang.only_one(part.target.parent.parent / f"{part.name}.lock", part.name):
            if part.target.exists():
                continue
            about = f"about {part.seconds // 60} min" if part.seconds >= 60 else f"about {part.seconds} s"
            golang.say(f"building {part.name} {part.version} ({number} of {len(parts)}), {about}, once")
            started = time.monotonic()
            if part.product == "kubernetes":
                _build_kubernetes(part)
            else:
                flags = ["-tags", "no_btrfs no_devmapper no_zfs"] if part.product == "containerd" else []
                golang.build(f"v{part.version}", part.package, part.target, flags)
            golang.say(f"  {part.name} is ready after {time.monotonic() - started:.0f} s")


def _build_kubernetes(part: Part) -> None:
    """Kubernetes' commands share one module, with the staging modules replaced; tidied once."""
    go = golang.find_go()
    workshop = part.target.parent / "module"
    with golang.only_one(workshop.with_suffix(".lock"), "the module of Kubernetes"):
        if not (workshop / "tidy").exists():
            _make_module(go, workshop)
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = [f"-X {package}.{key}={value}" for package in VERSION_PACKAGES for key, value in values.items()]
    unfinished = part.target.with_name(f".{part.name}-{os.getpid()}")
    command = [
        go,
        "build",
        "-v",
        "-trimpath",
        "-ldflags",
        " ".join(["-s -w", *stamps]),
        "-o",
        str(unfinished),
    ]
    try:
        golang.run([*command, part.package], workshop, f"{part.name}: compiling")
        unfinished.replace(part.target)
    finally:
        unfinished.unlink(missing_ok=True)


def _make_module(go: str, workshop: Path) -> None:
    workshop.mkdir(parents=True, exist_ok=True)
    answer = golang.run(
        [go, "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"], workshop, "Kubernetes"
    )
    upstream = Path(json.loads(answer)["GoMod"]).read_text()
    (workshop / "go.mod").write_text(module_file(upstream))
    commands = [part.package for part in PARTS if part.product == "kubernetes"]
    imports = "\n".join(f'import _ "{package}"' for package in commands)
    (workshop / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
    golang.run([go, "mod", "tidy"], workshop, "fetching the modules of Kubernetes")
    (workshop / "tidy").touch()


def module_file(upstream: str) -> str:
    """A ``go.mod`` that requires Kubernetes and replaces each staging module that ``upstream`` replaces."""
    staging = re.findall(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging/", upstream, re.MULTILINE)
    published = f"v0.{KUBERNETES.removeprefix('1.')}"
    replaced = "".join(f"\t{module} => {module} {published}\n" for module in staging)
    head = f"module kubernetes-binaries\n\ngo {GO_LANGUAGE}\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n"
    return f"{head}\nreplace (\n{replaced})\n"


if __name__ == "__main__":
    named = set(sys.argv[1:])
    binaries([part for part in PARTS if not named or part.name in named])
