"""The arguments of an operator's process, beside its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate_operator.hooks import Hooks
from sparkstate_operator.lease import LeaseSettings


@dataclass(frozen=True)
class Process:
    """See the module."""

    lease: LeaseSettings
    key: bytes | None
    """The key from which drivers' tokens derive; None: it is in ``key_secret``, and made where that is not there."""
    hooks: Hooks
    key_secret: str = ""
    """Name of a Secret in the Lease's namespace."""
    kubeconfig: str | None = None
    host: str = ""
    port: int = 8081
    driver_port: int | None = None
