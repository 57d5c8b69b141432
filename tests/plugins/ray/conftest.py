"""A Ray cluster on this machine. Without Ray, its tests are left out: see scripts/test-ray."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_[!p]*.py"]  # all but what of a placed backend needs no cluster

os.environ |= {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as on those systems, only the loopback address
    "RAY_USAGE_STATS_ENABLED": "0",
}
NODE = {"object_store_memory": 80_000_000, "node_ip_address": "127.0.0.1"}


class RayCluster:
    """A cluster of several nodes. The first one has no CPUs, so that it takes no copies."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.nodes: list[Any] = []

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    @property
    def logs(self) -> Path:
        """The folder in which all nodes log."""
        return Path(self._cluster.head_node.get_session_dir_path())

    def add(self, cpus: int) -> Any:
        """Add a node, and return it."""
        self.nodes.append(self._cluster.add_node(num_cpus=cpus, **NODE))
        return self.nodes[-1]

    def shutdown(self) -> None:
        self._cluster.shutdown()

    def kill(self, node: Any) -> None:
        """Kill a node with all of its processes."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def kill_all(self) -> None:
        """Kill all nodes at once, as in a power cut."""
        for node in (self._cluster.head_node, *self.nodes):
            for processes in node.all_processes.values():
                for one in processes:
                    os.kill(one.process.pid, signal.SIGKILL)

    def copies(self, node: Any) -> list[int]:
        """The processes of the copies on a node."""
        [raylet] = node.all_processes["raylet"]
        return [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if _begins(path, b"ray::BackendActor") and _parent(path.parent) == raylet.process.pid
        ]


def _begins(path: Path, text: bytes) -> bool:
    try:
        return path.read_bytes().startswith(text)
    except OSError:  # it has ended
        return False


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def started(*cpus: int) -> RayCluster:
    """Start a cluster with a node for each number of CPUs."""
    from ray.cluster_utils import Cluster

    head = {**NODE, "num_cpus": 0, "include_dashboard": False}
    made = RayCluster(Cluster(initialize_head=True, head_node_args=head))
    for number in cpus:
        made.add(number)
    return made


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A cluster with three nodes that have room for two copies, one and one, of 2 CPUs each."""
    import ray

    made = started(4, 2, 2)
    yield made
    ray.shutdown()
    made.shutdown()
