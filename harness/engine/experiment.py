"""All runs of one command, executed one after another."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

from harness.calls.signals import Notices, Stop
from harness.engine.executor import Result, execute
from harness.engine.job import Job
from harness.engine.progress import Tally
from harness.errors import AFFECTS_ALL_RUNS, HarnessError

NamedListener = Callable[[str, Tally, Stop, Notices], AbstractContextManager[Any]]
"""A `Listener` to several runs, which is also given the name of the run."""


class Execution(NamedTuple):
    """How a run ended in this command: with a result or, if it failed by itself, an error."""

    job: Job
    result: Result | None
    error: HarnessError | None = None

    @property
    def detached(self) -> bool:
        """Whether the run has left while its batches are at work."""
        batch = self.job.run.limits.batch
        ended = self.result is not None and self.result.ended
        return ended == "interrupted" and batch is not None and batch.detach


async def execute_all(
    jobs: Sequence[Job], listener: NamedListener, interrupted: Callable[[], bool]
) -> AsyncIterator[Execution]:
    """Execute runs, and yield how each ended.

    If one of several runs fails by itself, the others are executed nevertheless. If a run is
    interrupted or spends the budget, no other is started.

    Args:
        jobs: The runs.
        listener: Watches the runs.
        interrupted: Returns whether the user has interrupted the command.

    Raises:
        HarnessError: If the only run fails, or a failure concerns all runs.
    """
    for job in jobs:
        try:
            execution = Execution(job, await execute(job, partial(listener, job.folder.name)))
        except HarnessError as error:
            if len(jobs) == 1 or isinstance(error, AFFECTS_ALL_RUNS):
                raise
            execution = Execution(job, None, error)
        yield execution
        early = execution.result is not None and execution.result.ended != "finished"
        if interrupted() or (early and not execution.detached):
            return
