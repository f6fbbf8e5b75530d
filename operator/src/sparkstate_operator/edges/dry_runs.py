"""Dry runs of objects, before anything is stopped for them."""

from __future__ import annotations

from sparkstate_operator import errors
from sparkstate_operator.edges import kube as k

_NO_DRY_RUN = "does not support dry run"
"""The API server says so of a webhook with side effects. A dry run then tells nothing: the object itself is tried."""


async def make(kube: k.Kube, kind: k.Kind, body: k.Object) -> None:
    """Create the object in a dry run. Raises if it is refused, or cannot be tried."""
    try:
        await kube.create(kind, body["metadata"]["namespace"], body, dry_run=True)
    except errors.AlreadyExists:
        return
    except errors.ApiError as error:
        if _NO_DRY_RUN not in str(error):
            raise
