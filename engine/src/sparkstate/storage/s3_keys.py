"""Which credentials a client has, and whether others may be there by now.

boto3 renews those that it asks somebody for (a role, a web identity, a process). A file of keys it reads once: when a
Secret that is mounted changes, or an agent writes new keys, only another session finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

_FILES: Final = frozenset({"shared-credentials-file", "config-file", "boto-config"})
"""boto3's names of the sources that are files of keys."""


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

    @property
    def in_a_file(self) -> bool:
        """Whether they were read from a file."""
        return self.source in _FILES

    def may_replace(self, old: Keys) -> bool:
        """Whether a store that has ``old`` goes on with these. None, or those of another source, are what boto3 finds
        while a file is written or a metadata service is slow; a store that took them would keep them."""
        return self != old and self.source != "" and old.source in ("", self.source)


def of(credentials: Any) -> Keys:
    """Of a session's credentials, which may be None."""
    if credentials is None:
        return Keys("", ())
    if hasattr(credentials, "refresh_needed"):
        return Keys(credentials.method, ())
    frozen = credentials.get_frozen_credentials()
    return Keys(credentials.method, (frozen.access_key, frozen.secret_key, frozen.token))


def why_again(had: Keys, now: Keys, found: Keys | None, *, expired: bool) -> str | None:
    """Why a request that was refused with the keys ``had`` is sent again; None: it would be refused again.

    ``now``: those that the store has by now. ``found``: those that were found when it looked, None for half of them.
    ``expired``: the server said that they were right once.
    """
    if not had.source:
        return None if now == had else "there are credentials now, so it is tried again"
    refused = "the credentials were refused"
    # A process may give others each time that it is asked: then they say nothing about why these were refused.
    if now != had and (now.in_a_file or expired):
        return f"{refused}; they have changed since, so it is tried again"
    if had.in_a_file and (found is None or found.source != had.source):
        return f"{refused}; {had.source} has no whole ones now, so it is read again"
    if expired and had.in_a_file:
        return f"{refused}: the token has expired; renew it in {had.source}, which is read again"
    if expired and had.renewable:
        return f"{refused}; they come from {had.source}, which renews them, so it is tried again"
    return None
