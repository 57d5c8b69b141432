"""Two machines of a Ray cluster. Without Ray, its tests are left out: see scripts/test-ray."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.backends.ray.conftest import NODE, RayCluster

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def machines() -> Iterator[RayCluster]:
    """A cluster with two nodes of one CPU, and a head that works on nothing."""
    from ray.cluster_utils import Cluster

    head = {**NODE, "num_cpus": 0, "include_dashboard": False}
    made = RayCluster(Cluster(initialize_head=True, head_node_args=head))
    for _ in range(2):
        made.add(1)
    yield made
    made.shutdown()
