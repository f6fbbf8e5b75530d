"""Makes this machine ready for a cluster with real nodes: its programs, the images, and a program that builds them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TypeAlias

from sparkstate_tools import images
from sparkstate_tools.checkout import ROOT
from sparkstate_tools.kubernetes import nodes

Step: TypeAlias = tuple[str, ...]
"""A script, by its path in the checkout, and its arguments."""


class PreparationFailed(RuntimeError):
    """A step has failed, and has printed why; the message names it."""


def prepare(*, build: bool) -> None:
    """Programs of nodes and storage and, with ``build``, the images; missing tools are installed by apt-get.

    Raises ``CannotRunNodes`` or ``CannotBuild`` where this machine cannot do that, before anything is fetched, and
    ``PreparationFailed`` where it could and did not.
    """
    nodes.require()
    if build:
        images.require_builder(install=True)
    for step in steps(build=build):
        run(step)


def steps(*, build: bool) -> Iterator[Step]:
    """In order."""
    yield "scripts/fetch_parts.py", "s3", "cluster", "node"
    if build:
        yield ("scripts/build_images.py",)


def run(step: Step) -> None:
    """Raises ``PreparationFailed`` for an exit code other than 0."""
    environment = {**os.environ, "SPARKSTATE_INSTALL_TOOLS": "1"}
    if subprocess.run([sys.executable, *step], cwd=ROOT, env=environment, check=False).returncode:
        raise PreparationFailed(f"{' '.join(step)} failed")
