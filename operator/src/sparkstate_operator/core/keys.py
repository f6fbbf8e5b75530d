"""The keys of one attempt, derived from the operator's own key, so that the operator never has to read a job's Secret.

docs/security.md says what each key opens, and docs/formats.md how it is derived (RFC 0017).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

DRIVER = ("admin", "read", "slots", "spark", "token")
"""The files that a driver's container is given."""
EXECUTOR = ("slots", "spark", "token")
"""The files that an executor's container is given. None of them opens the control endpoint: executors run user code."""
REQUIRED = "token"
"""The file that every version's Secret has."""


@dataclass(frozen=True)
class Keys:
    """Of one attempt. Never printed."""

    admin: str = field(repr=False)
    read: str = field(repr=False)
    slots: str = field(repr=False)
    spark: str = field(repr=False)
    token: str = field(repr=False)
    """For images of earlier versions, which use it for everything; it opens nothing in newer ones."""


def of_attempt(key: bytes, uid: str, attempt: int) -> Keys:
    """``key`` is the operator's own."""
    root = hmac.new(key, f"{uid}/{attempt}/keys".encode(), hashlib.sha256).hexdigest()
    admin = derive(root, "admin")
    return Keys(
        admin=admin,
        read=derive(admin, "read"),
        slots=derive(root, "slots"),
        spark=derive(root, "spark"),
        token=hmac.new(key, f"{uid}/{attempt}".encode(), hashlib.sha256).hexdigest(),
    )


def of_command(key: bytes, namespace: str, name: str) -> str:
    """The key that opens the progress of an engine command. ``key`` is the operator's own."""
    return hmac.new(key, f"{namespace}/{name}/command".encode(), hashlib.sha256).hexdigest()


def digest(key: str) -> str:
    """The SHA-256 of a key, by which a command knows it: a digest opens nothing, so a pod's spec may hold it."""
    return hashlib.sha256(key.encode()).hexdigest()


def derive(secret: str, use: str) -> str:
    """The key for ``use``, derived from ``secret`` in the same way as the engine derives it from a token of its own."""
    digest = hmac.new(secret.encode(), f"sparkstate key 1: {use}".encode(), hashlib.sha256)
    return f"{use}-{digest.hexdigest()}"
