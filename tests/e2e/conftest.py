"""Clusters with real nodes, and on them the operator as a user installs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kubernetes import nodes
from support.kubernetes.nodes import NodeCluster

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

# The defaults wait longer than a test wants to: 50 s until a silent node counts as gone.
MANAGER = ("--node-monitor-grace-period=20s",)


@pytest.fixture(scope="session")
def machine() -> Iterator[NodeCluster]:
    """A cluster of our own with one node; two-node tests add another."""
    with nodes.running(MANAGER) as started:
        yield started
