"""Pools of processes that work on a build, on this machine or on a Ray cluster."""

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import harness
from harness.backends._cluster import connect
from harness.config.settings import ray_address
from harness.errors import ConfigError, HarnessError
from harness.execution import executing
from harness.extras import import_extra
from harness.workers import Pool, Workers, answer_of, cores, result_of

T = TypeVar("T")
R = TypeVar("R")

RETRIES = 3  # of a piece whose process or machine has died


def pool_of(engine: str, jobs: int | None) -> AbstractContextManager[Pool]:
    """Return the pool that the options ``--engine`` and ``--jobs`` of a build ask for."""
    return nullcontext(RayDataPool(jobs)) if engine == "ray" else Workers(jobs or cores())


class RayDataPool:
    """Does work on the cluster in ``RAY_ADDRESS``, as a pipeline of Ray Data.

    The files that the work reads must be at the same path on all machines.

    Args:
        jobs: Maximum number of pieces at a time (default: one for each core).
    """

    def __init__(self, jobs: int | None = None) -> None:
        if (address := ray_address()) and address.startswith("ray://"):
            problem = f"A build cannot use Ray through its client ({address})."
            raise ConfigError(problem, "Run it on a machine of the cluster, with RAY_ADDRESS=auto.")
        self._jobs = jobs
        import_extra("pyarrow", "ray")  # also missing where Ray was installed without Ray Data
        self._data = import_extra("ray.data", "ray")
        connect(None)

    def in_order(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``work(piece)`` for each piece, in the order of the pieces.

        If a process or a machine dies, its piece is started again, at most `RETRIES` times.
        """
        rows = [{"piece": pickle.dumps(piece)} for piece in pieces]
        if not rows:
            return
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = self._data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        blocks = self._data.from_items(rows, override_num_blocks=len(rows))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about max_retries, which can be given nowhere else
            answers = blocks.map(
                _answer,
                fn_args=(harness.__version__, pickle.dumps(work)),
                compute=self._data.TaskPoolStrategy(size=self._jobs),
                max_retries=RETRIES,
            )
        for answer in _taken(answers):
            yield result_of(answer)


def _taken(answers: Any) -> Iterator[Any]:
    try:
        for row in answers.iter_rows():
            yield pickle.loads(row["answer"])  # noqa: S301 (from this program)
    except Exception as error:  # whatever Ray raises for a cluster that fails
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        remedy = "A process may have run out of memory. Run the command again to resume."
        raise HarnessError(f"The Ray cluster has failed ({said}).", remedy) from None


@executing()
def _answer(row: dict[str, bytes], version: str, work: bytes) -> dict[str, bytes]:
    """Work on a piece, and return the pickled result or error."""

    def worked() -> Any:
        if harness.__version__ != version:
            problem = f"A machine has version {harness.__version__} of the harness, not {version}."
            raise ConfigError(problem, "Install one version on all (harness doctor --cluster).")
        return pickle.loads(work)(pickle.loads(row["piece"]))  # noqa: S301 (from this program)

    return {"answer": pickle.dumps(answer_of(worked))}
