"""Does work on the machines of a Ray cluster. Each task takes one piece of the work."""

from __future__ import annotations

import logging
import pickle
import platform
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from time import monotonic
from typing import Any

import harness
from harness.backends._cluster import connect
from harness.errors import ConfigError, HarnessError
from harness.execution import executing
from harness.extras import import_extra
from harness.workers import PENDING, answer_of, result_of

DEATHS = 3
"""A piece fails once this many worker processes have died while they worked on it."""
LOSSES = 20
"""A piece fails once its machine has disappeared this many times."""
COUNT_S = 5.0
"""Seconds until the cores of the cluster are counted again: machines join and leave."""


class RayTasks:
    """The cores of a Ray cluster as an engine of `harness.workers.Workers`.

    The work is sent once, in its current state, with functions and classes that other machines do
    not have. If a worker process or a machine dies, its piece is started again, up to a limit.

    Args:
        jobs: Maximum number of pieces in flight (default: two for each core).
        address: The address of the cluster, as for `connect`.

    Raises:
        ExtraMissing: If Ray is not installed.
        FatalCallError: If the cluster cannot be reached.
    """

    def __init__(self, jobs: int | None = None, address: str | None = None) -> None:
        self._ray = connect(address)
        self._task = self._ray.remote(_answer).options(num_cpus=1, max_retries=0)
        self._jobs = jobs
        self._sent: tuple[Callable[[Any], Any], Any] | None = None
        self._cores, self._counted = 0, 0.0

    @property
    def cores(self) -> int:
        """The number of cores of the cluster, counted at most `COUNT_S` seconds ago."""
        if not self._counted or monotonic() > self._counted + COUNT_S:
            self._cores = int(self._ray.cluster_resources().get("CPU", 0))
            self._counted = monotonic()
        return self._cores

    @property
    def capacity(self) -> int:
        """The number of pieces that may be in flight now."""
        return self._jobs or max(self.cores, 1) * PENDING

    def submit(self, work: Callable[[Any], Any], piece: object) -> _Submitted:
        """Begin to work on a piece.

        Raises:
            ConfigError: If the work or the piece cannot be sent.
        """
        put = self._ray.put
        try:
            question = pickle.dumps(piece)
        except (pickle.PicklingError, TypeError, AttributeError):
            question = packed(piece, "A piece")  # its classes may exist only here
        if self._sent is None or self._sent[0] != work:
            self._sent = work, put(packed(work, "This work"))
        return _Submitted(self._ray, self._task, (self._sent[1], put(question)))

    def close(self) -> None:
        """Do nothing: `Workers` cancels the pieces in flight, and the cluster keeps running."""


class _Submitted:
    """A piece of the work that the cluster is working on."""

    def __init__(self, ray: Any, task: Any, arguments: tuple[Any, Any]) -> None:
        self._ray, self._task, self._arguments = ray, task, arguments
        self._begin()

    def _begin(self) -> None:
        self._reference = self._task.remote(harness.__version__, *self._arguments)

    def result(self) -> Any:
        """Wait for the result and return it, or raise the error that the work raised.

        Raises:
            HarnessError: If the process died at every try, or the cluster cannot do the work.
        """
        errors = self._ray.exceptions
        deaths = losses = 0
        while True:
            try:
                return result_of(pickle.loads(self._ray.get(self._reference)))  # noqa: S301
            except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
                deaths, last = deaths + 1, error
            except (
                errors.NodeDiedError,
                errors.ObjectLostError,
                errors.LocalRayletDiedError,
            ) as error:
                losses, last = losses + 1, error
            except errors.RayError as error:  # the harness is not installed there, for example
                problem = f"The cluster cannot do the work ({_line(error)})."
                remedy = "harness doctor --cluster shows what its machines have installed."
                raise HarnessError(problem, remedy) from None
            if deaths == DEATHS or losses == LOSSES:
                begun = f"begun {deaths + losses} times, and each time its process ended"
                remedy = "It may have run out of memory. Without --engine ray, it is done here."
                raise HarnessError(f"A piece of work was {begun} ({_line(last)}).", remedy)
            self._begin()

    def cancel(self) -> None:
        """End the task, even during the work."""
        self._ray.cancel(self._reference, force=True)


def packed(value: object, name: str) -> bytes:
    """Pickle a value for other machines, with the code that they do not have.

    Raises:
        ConfigError: If the value cannot be pickled. The message begins with ``name``.
    """
    plain = import_extra("ray.cloudpickle", "ray").CloudPickler
    table = ChainMap({type(_loaded): _reduce_cached}, plain.dispatch_table)
    packet = BytesIO()
    try:
        type("Pickler", (plain,), {"dispatch_table": table})(packet).dump(value)
    except Exception as error:  # whatever its objects raise
        problem = f"{name} cannot be sent to other machines ({_line(error)})."
        remedy = "Leave out --engine ray, to use the cores of this machine."
        raise ConfigError(problem, remedy) from None
    return packet.getvalue()


def _reduce_cached(function: Any) -> Any:
    """Reduce a function with an `lru_cache` to its name or parts."""
    name = function.__name__
    if getattr(sys.modules.get(function.__module__), name, None) is function:
        return name
    return _cached, (function.cache_parameters(), function.__wrapped__)


def _cached(parameters: Mapping[str, Any], function: Callable[..., Any]) -> Any:
    return lru_cache(**parameters)(function)


def unpacked(packet: bytes, name: str) -> Any:
    """Return the value that `packed` has pickled.

    Raises:
        ConfigError: If the value cannot be loaded, for example because a module is missing here.
    """
    try:
        return pickle.loads(packet)  # noqa: S301 (from the client)
    except Exception as error:
        problem = f"{name} cannot be loaded ({_line(error)})."
        raise ConfigError(problem, "Install the same packages on all machines.") from None


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


@executing()
def _answer(version: str, work: bytes, piece: bytes) -> bytes:
    """Work on a piece, and return the pickled result or error."""

    def worked() -> Any:
        if version != harness.__version__:
            problem = f"The harness is {harness.__version__} there, and {version} here."
            raise ConfigError(problem, "Install the same version on all machines of the cluster.")
        return _loaded(work)(pickle.loads(piece))  # noqa: S301 (from the client)

    logging.getLogger("harness").setLevel(logging.ERROR)  # the client has already warned
    answer = found, error = answer_of(worked)
    if isinstance(error, HarnessError):
        error.message = f"On {platform.node()}: {error.message}"
        answer = found, error
    return pickle.dumps(answer)


@lru_cache(maxsize=1)
def _loaded(work: bytes) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = unpacked(work, "The work")
    return found
