"""The names of all objects that a job has. Each fits 63 characters, for every job name that the CRD accepts (at most
40) and every attempt up to :data:`MAX_ATTEMPT`."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

LIMIT = 63
MAX_ATTEMPT = 999_999
"""With the longest job name, the prefix of executors' names (``spark.kubernetes.executor_prefix`` of the engine) then
has the 47 characters that Spark allows."""
TRACE = 0
"""Attempts begin at 1. This is the number of the ConfigMap that a command gets where no attempt has made one."""


def _attempt(attempt: int) -> int:
    if not 0 <= attempt <= MAX_ATTEMPT:
        raise ValueError(f"attempt is {attempt}; names have room for 0 to {MAX_ATTEMPT}")
    return attempt


def driver_pod(job: str, attempt: int) -> str:
    """A pod of its own for every attempt: attempts never share a name."""
    return f"{job}-driver-{_attempt(attempt)}"


def config_map(job: str, attempt: int) -> str:
    """The attempt's manifest and the executors' pod template."""
    return f"{job}-{_attempt(attempt)}"


def token_secret(uid: str, attempt: int) -> str:
    """Named by uid, so that a job that is created again never meets the Secret of an earlier job of its name."""
    return f"sparkstate-{uid}-{_attempt(attempt)}"


def service(job: str) -> str:
    """The headless Service before the driver."""
    return f"{job}-driver"


def service_account(job: str) -> str:
    """The job's own ServiceAccount (where the spec names none)."""
    return f"{job}-spark"


def role_binding(job: str, kind: str, role: str) -> str:
    """The RoleBinding of the job's driver. The role is part of the name, because the role of a binding cannot be
    changed, and a binding to another role has to exist before the old one goes."""
    return f"{job}-spark-{digest(f'{kind}/{role}', 6)}"


def revision(job: str, digest: str) -> str:
    """A ControllerRevision, by the digest of what it holds."""
    return f"{job}-{digest}"


def periodic_snapshot(job: str, uid: str, scheduled: datetime) -> str:
    """From uid and scheduled time alone, so that doing it twice makes one object."""
    stamp = scheduled.astimezone(UTC).strftime("%y%m%d%H%M%S")
    return f"{job}-{stamp}-{digest(uid, 6)}"


def trigger_id(uid: str, scheduled: datetime) -> str:
    """The trigger of a periodic savepoint, from uid and scheduled time alone."""
    return digest(f"{uid} {scheduled.astimezone(UTC).isoformat()}", 32)


def command_job(owner: str, uid: str, verb: str, number: int = 0) -> str:
    """A Kubernetes Job that runs one engine command for a job or snapshot; Kubernetes adds 6 characters to its
    pods' names. A long owner's name is cut."""
    tail = f"-{digest(uid, 6)}-{verb}-{number}"
    return owner[: LIMIT - 6 - len(tail)].rstrip("-") + tail


def digest(text: str, length: int) -> str:
    """``length`` hexadecimal digits that stand for ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]
