"""Starts, replaces and ends the copies of a model on a Ray cluster."""

import contextlib
import itertools
import pickle
import socket
import threading
from dataclasses import dataclass
from typing import Any

import harness
from harness.backends._cluster import connect
from harness.backends._copy_actor import BackendActor, CopySpec
from harness.config.sections import PlacementSection
from harness.extras import import_extra

END_S = 20.0  # seconds that the copies get to close their backends
PROBE_S = 5.0  # time limit of a probe
OPEN_CALLS = 100  # maximum concurrent calls of a copy's methods, over all of its clients
_lives = itertools.count()  # numbers of copies, unique within this process


@dataclass(eq=False, frozen=True)
class Copy:
    """A copy of a model: its actor, and the result of the actor's method `open`."""

    life: int  # unique within this process
    slot: int
    actor: Any
    opened: Any
    group: Any = None  # its placement group, if it has several bundles


class Copies:
    """The copies of a model on a Ray cluster, one in each slot. May be used from any thread.

    They are kept for later runs of this process with the same model and placement.

    Args:
        spec: The specification of a copy. It is sent to each copy in a message, so that its secrets
            do not reach Ray's tables, logs or dashboard.
        placement: The section ``placement`` of the model.
    """

    def __init__(self, spec: CopySpec, placement: PlacementSection) -> None:
        self.ray = connect(placement.address)
        self._spec, self._placement = pickle.dumps(spec), placement
        self._lock = threading.Lock()
        self._over = False
        self.lost = False  # whether the whole cluster is gone
        self._head: str = self.ray.get_runtime_context().gcs_address
        self._copies = [self._start(slot) for slot in range(placement.replicas)]

    def current(self, slot: int) -> Copy:
        return self._copies[slot]

    def replace(self, copy: Copy) -> None:
        """Kill a copy and start another in its slot, unless it was replaced or `end` was called."""
        with self._lock:
            if self._copies[copy.slot] is copy and not self._over:
                self.kill(copy)
                self._copies[copy.slot] = self._start(copy.slot)

    def node_lives(self, node: str) -> bool:
        return any(one["NodeID"] == node and one["Alive"] for one in self.ray.nodes())

    def ended(self) -> bool:
        """Return whether this process has lost its connection to the cluster."""
        return self.lost or not self.ray.is_initialized()

    def head_answers(self) -> bool:
        """Return whether the cluster's head accepts connections."""
        host, _, port = self._head.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PROBE_S).close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        if self.lost:
            return
        with self._lock, contextlib.suppress(Exception):  # the cluster may be gone
            self._over = True
            started = self.ray.wait(
                [one.opened for one in self._copies], num_returns=len(self._copies), timeout=0
            )[0]
            closing = [one.actor.aclose.remote() for one in self._copies if one.opened in started]
            if closing:
                self.ray.wait(closing, num_returns=len(closing), timeout=END_S)
            for copy in self._copies:
                self.kill(copy)

    def _start(self, slot: int) -> Copy:
        asked, group = self._placement, None
        options: dict[str, Any] = {
            "num_cpus": asked.cpus,
            "num_gpus": asked.gpus,
            "resources": dict(asked.resources),
            "max_restarts": 0,
            "max_concurrency": OPEN_CALLS,
            "scheduling_strategy": "SPREAD",
        }
        if asked.memory_gb is not None:
            options["memory"] = int(asked.memory_gb * 1e9)
        if asked.bundles > 1:
            # The engine's own workers take the bundles' GPUs; the copy itself needs none.
            bundle: dict[str, float] = {"CPU": asked.cpus, "GPU": asked.gpus, **asked.resources}
            bundle = {name: amount for name, amount in bundle.items() if amount}
            groups = import_extra("ray.util.placement_group", "ray")
            strategies = import_extra("ray.util.scheduling_strategies", "ray")
            group = groups.placement_group([bundle] * asked.bundles, strategy="PACK")
            options["scheduling_strategy"] = strategies.PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            )
            options |= {"num_gpus": 0, "num_cpus": 0, "resources": {}}
        actor = self.ray.remote(BackendActor).options(**options).remote()
        opened = actor.open.remote(harness.__version__, self._spec)
        return Copy(next(_lives), slot, actor, opened, group)

    def kill(self, copy: Copy) -> None:
        """End a copy without closing its backend, and free its resources."""
        with contextlib.suppress(Exception):  # it may be dead, or the cluster gone
            self.ray.kill(copy.actor)
            if copy.group is not None:
                groups = import_extra("ray.util.placement_group", "ray")
                groups.remove_placement_group(copy.group)
