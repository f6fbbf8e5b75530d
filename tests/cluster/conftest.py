"""The control plane for tests of the operator, and what every one of them needs of it.

It is one for all tests of a run, started when the first asks; each test takes a namespace of its own. With
``SPARKSTATE_TEST_KUBECONFIG`` it is the cluster named there, and tests marked ``own_cluster`` are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkstate_tools.kubernetes import cluster as clusters
from sparkstate_tools.kubernetes import control_plane
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

CRDS = Path(__file__).resolve().parents[2] / "crds"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get(clusters.FOREIGN):
        return
    left_out = [item for item in items if item.get_closest_marker("own_cluster")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without nodes: pods stay pending unless a test writes their status. Our CRDs: ``crds``."""
    folder = tmp_path_factory.mktemp("cluster")
    foreign = clusters.foreign(folder)
    if foreign:
        yield foreign
        foreign.close()
        return
    with control_plane.running() as plane:
        own = Cluster(plane.admin, folder, plane)
        yield own
        own.close()


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """Our CRDs are installed and served."""
    cluster.install_crds(CRDS)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of this test alone."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def operated(cluster: Cluster, crds: None, namespace: str, tmp_path: Path) -> Iterator[OperatedNamespace]:
    """A namespace for an operator; none runs yet, unless ``running_operator`` is used too."""
    found = OperatedNamespace(cluster, namespace, tmp_path)
    yield found
    found.end()


@pytest.fixture
def running_operator(operated: OperatedNamespace) -> None:
    """The operator of ``operated`` runs."""
    operated.start()
