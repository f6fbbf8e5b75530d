"""The keys of one attempt: one for each door (docs/security.md), so that none opens another.

    token ─┬─ admin ── read      the control endpoint: to stop the job, take savepoints; to look
           ├─ slots              connections to slots
           └─ spark              Spark's own between driver and executors

Each key is derived from the one to its left, and none can be derived to the left or across. In a cluster the operator
derives them, and each container is given those that it needs as files beside the token's. The token itself then opens
nothing; it is there for drivers of earlier versions. Elsewhere the driver derives the keys from its token.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/etc/sparkstate/token")
"""Where a pod's keys are mounted."""
ADMIN: Final = "admin"
READ: Final = "read"
SLOTS: Final = "slots"
SPARK: Final = "spark"


def derive(secret: str, use: str) -> str:
    """The key for ``use`` that follows from ``secret``; it begins with the name of its use."""
    return f"{use}-{hmac.digest(secret.encode(), f'sparkstate key 1: {use}'.encode(), 'sha256').hex()}"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """All that a driver holds. Never printed."""

    admin: str = field(repr=False)
    read: str = field(repr=False)
    slots: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    """The secret that they are derived from, which opens as much as ``admin``; None: it opens nothing."""
    in_files: bool = False
    """Whether executors find theirs in files too, so that none has to travel to them."""


def of_token(token: str) -> Keys:
    """All of them, from the token."""
    admin = derive(token, ADMIN)
    return Keys(admin=admin, read=derive(admin, READ), slots=derive(token, SLOTS), token=token)


def load(token_file: Path) -> Keys:
    """From the files beside the token's, or from the token in it, which is all that an earlier operator gives."""
    files = {use: token_file.with_name(use) for use in (ADMIN, READ, SLOTS)}
    if not all(path.is_file() for path in files.values()):
        return of_token(token_file.read_text().strip())
    found = {use: path.read_text().strip() for use, path in files.items()}
    return Keys(admin=found[ADMIN], read=found[READ], slots=found[SLOTS], in_files=True)


def for_task(told: str, folder: Path = FOLDER) -> str:
    """The key for slots in a task of Spark: the one that it was ``told``, or if that is empty, its pod's."""
    return told or (folder / SLOTS).read_text().strip()


def secret_of_spark(folder: Path = FOLDER) -> str:
    """The file with the secret that Spark's driver and executors share; both have it at the same place."""
    path = folder / SPARK
    return str(path if path.is_file() else folder / "token")


def as_read(given: str) -> str:
    """The key to look with, from the token, from the key ``admin``, or from itself."""
    return given if _is(given, READ) else derive(as_admin(given), READ)


def as_admin(given: str) -> str:
    """The key to change something with, from the token or itself. ``read`` stays: no better key follows from it."""
    return given if _is(given, ADMIN) or _is(given, READ) else derive(given, ADMIN)


def _is(given: str, use: str) -> bool:
    """By its whole form: somebody's own token may begin with the name of a use."""
    return re.fullmatch(f"{use}-[0-9a-f]{{64}}", given) is not None
