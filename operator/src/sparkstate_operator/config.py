"""The operator's settings. The chart passes them on the command line, and nothing is read from anywhere else later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DRIVER_PORT = 8480
USER = 185
"""``sparkstate`` in the images; has an entry in /etc/passwd there."""


@dataclass(frozen=True)
class DriverRole:
    """The role that drivers with executors are bound to. Somebody else makes it: the chart."""

    kind: str = "ClusterRole"
    """``ClusterRole``, or ``Role``: one of that name in each job's namespace."""
    name: str = "sparkstate-driver"

    @classmethod
    def of(cls, text: str) -> DriverRole:
        """From ``KIND/NAME``. Raises ``ValueError``."""
        kind, slash, name = text.partition("/")
        if kind not in ("ClusterRole", "Role") or not slash or not name or "/" in name:
            raise ValueError(f"{text!r}; it must be ClusterRole/NAME or Role/NAME")
        return cls(kind, name)


@dataclass(frozen=True)
class Config:
    """Settings of one operator process. They hold no secret: the key goes only to the code
    that derives tokens from it."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; none means all."""
    cluster: str = "default"
    """Name of the cluster, part of ``by-name/<cluster>/<namespace>/<name>`` in storage."""
    cluster_found: bool = False
    """Whether nobody has told that name: it was found (``naming_cluster``),
    and a job's own note counts before it (``kept_name``)."""
    cluster_id: str = ""
    """Uid of kube-system, by which a job's pinned name is known to be of this cluster; empty where it may not be read.
    """
    engine_image: str = ""
    """Image ``job`` of this version, for the engine's commands in Jobs; the user's own may be gone."""
    driver_role: DriverRole = DriverRole()
    """The role that a job's RoleBinding names. The operator makes no role, so that it needs no right to make any."""
    ids: Mapping[str, int] = field(
        default_factory=lambda: {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}
    )
    """Users and groups of jobs' pods, where a pod template names none; what is missing is the cluster's to choose."""
    operator_class: str = ""
    """Jobs with this class alone are looked after, as their label says; empty: those without one."""
    mark: str = ""
    """The operator's mark on its jobs (``managing.Manager``), the same for all its replicas and versions."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The chart's ``defaults``: a job's fields that the cluster has values for."""
    resync_s: float = 180.0
    """A healthy job is looked at this often without any event, as far as ``looks_per_s`` lets."""
    deep_resync_s: float = 600.0
    """A look compares all of a job's children where that was not done for so long,
    as far as ``deep_looks_per_s`` lets."""
    deep_looks_per_s: float = 2.0
    """Looks that compare all children, in a second at most, all jobs together. Each of them lists nine kinds. An API
    server finds a job's few objects among those of all jobs, so a list costs it more the more jobs there are. With
    5,000 jobs and seven such looks a second, they took most of its processor, and savepoints waited (RFC 0024)."""
    listen_s: float = 10.0
    """Between two looks the driver of a running job is asked this often: that costs the API server nothing."""
    polls_per_s: float = 100.0
    """Drivers that are asked in a second at most, all jobs together, as ``pacing`` spreads it."""
    progress_s: float = 60.0
    """Progress is written into the status at most this often."""
    progress_writes_per_s: float = 20.0
    """Jobs whose progress is written in a second at most, all together."""
    writes_at_once: int = 4
    """Of these, under way at once. Fewer than ``workers``, as for all work that can wait. With a slow API server these
    writes once held all eight workers, and drivers were asked a quarter as often as they should be (RFC 0024)."""
    looks_per_s: float = 5.0
    """Healthy jobs that are looked at in a second without any event at most, all together."""
    looks_at_once: int = 2
    """Of these, under way at once."""
    workers: int = 24
    """Reconciles at once."""
