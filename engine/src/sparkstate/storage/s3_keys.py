"""Which credentials a client has, and whether others may be there by now.

boto3 renews those that it asks somebody for (a role, a web identity, a process). A file of keys it reads once: when a
Secret that is mounted changes, or an agent writes new keys, only another session finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Keys:
    """Compared to see that credentials changed. Never printed."""

    source: str
    """boto3's name of where they come from; empty if there are none."""
    parts: tuple[str | None, ...] = field(repr=False)
    """Empty for those that boto3 renews: each session has others, and the client at hand will have them too."""

    @property
    def renewable(self) -> bool:
        """Whether somebody can change them while this process runs: nobody changes its environment."""
        return self.source not in ("", "env")


def of(credentials: Any) -> Keys:
    """Of a session's credentials, which may be None."""
    if credentials is None:
        return Keys("", ())
    if hasattr(credentials, "refresh_needed"):
        return Keys(credentials.method, ())
    frozen = credentials.get_frozen_credentials()
    return Keys(credentials.method, (frozen.access_key, frozen.secret_key, frozen.token))
