"""Whether a local folder that is missing was deleted, or only lies on a volume that is not mounted here.

To a command that deletes or looks for state, a folder that it cannot see and a folder that is gone look alike. In a
container without the volume, "nothing is there" would be told of state that is all there.
"""

from __future__ import annotations

import os
from pathlib import Path

from sparkstate import errors
from sparkstate.storage import naming

ROOT = Path("/")


def require_reachable(url: str, root: Path = ROOT) -> None:
    """Raise ``StorageError`` where the folder of ``url`` is missing and no volume is mounted above it.

    Buckets are judged by their server: a missing one is an error already. ``root`` is the file system on which
    nothing counts as a volume.
    """
    wanted = naming.normalise_url(url)
    if not naming.is_local(wanted):
        return
    folder = naming.local_path(wanted)
    if folder.is_dir() or on_a_volume(folder, root):
        return
    raise errors.StorageError(
        f"{folder} is not there, and no volume is mounted above it, so nobody knows what has become of its content: "
        "mount the volume that holds it (in Kubernetes by the volumes and volumeMounts of driverTemplate, or of a "
        "StateSnapshot's template), or correct the URL"
    )


def on_a_volume(folder: Path, root: Path = ROOT) -> bool:
    """Whether the nearest folder above that exists lies on another file system than ``root``."""
    nearest = next((above for above in (folder, *folder.parents) if above.exists()), root)
    return os.stat(nearest).st_dev != os.stat(root).st_dev


def mount_of(folder: Path) -> Path | None:
    """The place at which the volume of ``folder`` is mounted; None if that is the root of all, which cannot go away.

    A folder that is mounted from the same file system is not told from one that lies there.
    """
    here = folder.resolve()
    return next((above for above in (here, *here.parents[:-1]) if os.path.ismount(above)), None)
