"""Connects to a Ray cluster, and surveys and checks its machines."""

import logging
import platform
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import harness
from harness.config.sections import PlacementSection
from harness.config.settings import environment_variable, temporary_variables
from harness.errors import FatalCallError, import_extra
from harness.plugin import CheckupFinding
from harness.wording import to_one_line

ADDRESS = "RAY_ADDRESS"  # the variable with the address of a cluster; Ray reads no .env
REACH_S = 10.0  # time limit of a connection to the cluster
SURVEY_S = 60.0  # time limit of the machines' answers: Ray first starts a process on each
REACH = (
    "Check placement.address or RAY_ADDRESS, and that this machine has the cluster's versions of "
    "Ray and Python (harness doctor --cluster)."
)

_connecting = threading.Lock()


def summary(error: Exception) -> str:
    """Return an error in one line."""
    return to_one_line(f"{type(error).__name__}: {error}")


def connect(address: str | None) -> Any:
    """Connect this process to a Ray cluster, and return the module ``ray``.

    Without an address, Ray takes ``RAY_ADDRESS``, then a cluster that runs on this machine, and
    otherwise starts one, which ends with this process. If the process is already connected,
    ``address`` is ignored.

    Raises:
        FatalCallError: If the cluster cannot be reached.
    """
    # Ray would send usage statistics and, under `uv run`, upload the working folder with its .env.
    # It would print every death of a process on stdout.
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    quiet["RAY_DEDUP_LOGS_SKIP_REGEX"] = "."
    with _connecting, temporary_variables(**quiet):
        ray = import_extra("ray", "ray")
        if ray.is_initialized():
            return ray
        address = address or environment_variable(ADDRESS)
        _check_reachable(address)
        try:
            _init(ray, address)
        except Exception as error:  # whatever Ray raises for a cluster that it cannot reach
            raise FatalCallError(f"Ray cannot be reached ({summary(error)}).", REACH) from None
    return ray


def _init(ray: Any, address: str | None) -> None:
    """Call ``ray.init`` in a thread that never ends, since a cluster started here ends with it."""
    connected: Future[None] = Future()

    def live() -> None:
        try:
            ray.init(
                address,
                namespace="harness",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except BaseException as error:
            connected.set_exception(error)
        else:
            connected.set_result(None)
            threading.Event().wait()

    threading.Thread(target=live, name="ray", daemon=True).start()
    connected.result()


def _check_reachable(address: str | None) -> None:
    """Raise FatalCallError if nothing listens at an address: Ray would try for minutes."""
    parts = urlsplit(address if address and "://" in address else f"//{address or ''}")
    try:
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), REACH_S).close()
    except (OSError, ValueError) as error:
        raise FatalCallError(f"There is no Ray cluster at {address} ({error}).", REACH) from None


@dataclass(frozen=True)
class Machine:
    """A machine of a cluster: its total resources, and the versions of its software.

    The versions are None if the machine did not answer, and empty if it has no harness.
    """

    host: str
    resources: Mapping[str, float]
    versions: Mapping[str, str] | None


def survey(address: str | None) -> list[Machine]:
    """Return the live machines of a cluster, with the versions that each reports.

    Raises:
        FatalCallError: If the cluster cannot be reached.
    """
    ray = connect(address)
    affinity = import_extra("ray.util.scheduling_strategies", "ray").NodeAffinitySchedulingStrategy
    nodes = [node for node in ray.nodes() if node["Alive"]]
    references = [
        ray.remote(versions)
        .options(num_cpus=0, scheduling_strategy=affinity(node["NodeID"], soft=False))
        .remote()
        for node in nodes
    ]
    answered = (
        ray.wait(references, num_returns=len(references), timeout=SURVEY_S)[0] if references else []
    )
    machines = []
    for node, reference in zip(nodes, references, strict=True):
        reported = None
        if reference in answered:
            try:
                reported = ray.get(reference)
            except ray.exceptions.RayError:  # the harness is not installed there
                reported = {}
        machines.append(Machine(node["NodeManagerHostname"], node["Resources"], reported))
    return machines


def versions() -> dict[str, str]:
    """Return the versions of the software that all machines must have in common."""
    ray = import_extra("ray", "ray")
    return {
        "harness": harness.__version__,
        "Ray": ray.__version__,
        "Python": platform.python_version(),
    }


def room(machines: Sequence[Machine], placement: PlacementSection) -> int:
    """Return how many copies of a model fit on the machines if nothing else uses the machines."""
    need = {"CPU": placement.cpus, "GPU": placement.gpus, **placement.resources}
    if placement.memory_gb is not None:
        need["memory"] = placement.memory_gb * 1e9
    need = {name: amount for name, amount in need.items() if amount}
    if not need:
        return placement.replicas
    parts = sum(
        int(min(machine.resources.get(name, 0) // amount for name, amount in need.items()))
        for machine in machines
    )
    return parts // placement.bundles


def check(placements: Mapping[str, PlacementSection]) -> Iterator[CheckupFinding]:
    """Check the machines, and whether the copies of models fit on them."""
    addresses = [placement.address for placement in placements.values()]
    address = next(filter(None, addresses), None)
    try:
        machines = survey(address)
    except FatalCallError as error:
        yield CheckupFinding("broken", "Ray", error.message, error.remedy)
        return
    here = versions()
    total = _sizes(*(machine.resources for machine in machines))
    yield CheckupFinding("ok", "here", _listed(here))
    yield CheckupFinding("ok", f"{len(machines)} nodes", " and ".join(total))
    for machine in machines:
        size = ", ".join(_sizes(machine.resources))
        if machine.versions == here:
            yield CheckupFinding("ok", machine.host, size)
            continue
        problem = "no answer" if machine.versions is None else "no harness, or a broken one"
        if machine.versions:
            problem = _listed(machine.versions)
        remedy = "Install the same versions on all machines of the cluster."
        yield CheckupFinding("broken", machine.host, f"{size}: {problem}", remedy)
    for label, placement in placements.items():
        copies = min(room(machines, placement), placement.replicas)
        space = f"room for {copies} of {placement.replicas} copies"
        if copies == placement.replicas:
            yield CheckupFinding("ok", label, space)
            continue
        remedy = "The others wait for machines that join: model.placement (harness docs cluster)."
        yield CheckupFinding("lack", label, space, remedy)


def _sizes(*resources: Mapping[str, float]) -> list[str]:
    return [
        f"{sum(resource.get(name, 0) for resource in resources):g} {name}s"
        for name in ("CPU", "GPU")
    ]


def _listed(packages: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())
