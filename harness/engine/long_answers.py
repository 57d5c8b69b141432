"""Scores long answers in a separate process, because scoring must not block a run.

Scoring can take seconds if a model repeats itself up to its token limit (COLLIE: 4 s for 10,000
sentences). Meanwhile the replies of other calls would time out and be paid for again.
"""

import contextlib
import pickle
import signal
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.assessment import Assessment, assess, feedback, reply_outcome
from harness.engine.resolving import build_task
from harness.ports import Task
from harness.records import Instance, Reply, Score
from harness.workers import ProcessEnded, WorkerProcess

R = TypeVar("R")

LONG = 10_000  # answers of at least this many characters are scored in the separate process
MOST_CPU_S = 60  # limit for scoring one answer; an answer that takes longer has no verdict


class _TaskUnknown(Exception):
    """The other process cannot build the task."""


class LongAnswers:
    """An assessor of answers by the task's rules. Thread-safe.

    Long answers are assessed in a separate process, which builds the task from the run file. If
    that fails, because only this process knows the task, they are assessed here.
    """

    def __init__(
        self,
        task: Task[Any],
        run: RunFile,
        settings: Settings,
        status: Callable[[str], None] = lambda _: None,
        cpu_s: float = MOST_CPU_S,
    ) -> None:
        self._task, self._status, self._cpu_s = task, status, cpu_s
        self._parts = run, settings.data_dir
        self._pickled = b""
        self._process = WorkerProcess()
        self._here = self._closed = False
        self._lock = Lock()

    def assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        """Assess a reply. If that takes too long, the result has a ``problem`` and no verdict."""
        try:
            return self._run(assess, instance, reply)
        except TimeoutError:
            took = f"took more than {self._cpu_s:g} s of CPU time"
        n = len(reply.text)
        self._status(f"An answer has no verdict: scoring its {n:,} characters {took}.")
        problem = f"not scored: scoring {took}"
        # A score without a value keeps a judge from deciding alone.
        scores = {"scored": Score(None, None, problem)}
        return Assessment(reply_outcome(reply), None, scores, problem)

    def feedback(self, instance: Instance[Any], reply: Reply, found: Assessment) -> str:
        """Return the user's next message after a reply, or "" if producing it takes too long."""
        try:
            return self._run(feedback, instance, reply, found)
        except TimeoutError:
            return ""

    def close(self) -> None:
        """End the process, even while it is working."""
        self._closed = True
        self._process.kill()  # also unblocks a thread waiting for its answer

    def _run(
        self, function: Callable[..., R], instance: Instance[Any], reply: Reply, *more: object
    ) -> R:
        """Call a function with the task. For a long reply, try the other process first."""
        question = b""
        if len(reply.text) >= LONG:
            with contextlib.suppress(pickle.PicklingError, TypeError, AttributeError):
                self._pickled = self._pickled or pickle.dumps(self._parts)
                piece = self._pickled, self._cpu_s, function, (instance, reply, *more)
                question = pickle.dumps((_with_task, piece))
        if question:
            with self._lock, contextlib.suppress(_TaskUnknown):
                if not (self._here or self._closed):
                    answer: R = self._answer(question)
                    return answer
        return function(self._task, instance, reply, *more)

    def _answer(self, question: bytes) -> Any:
        try:
            return self._process.answer(question)
        except ProcessEnded:
            self._process.kill()
            self._process = WorkerProcess()
            raise TimeoutError from None
        except _TaskUnknown:
            self._here = True
            self._process.kill()
            raise


def _with_task(piece: tuple[bytes, float, Callable[..., R], tuple[Any, ...]]) -> R:
    pickled, cpu_s, function, arguments = piece
    try:
        task = _built(pickled)
    except Exception as error:
        raise _TaskUnknown(str(error)) from None
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process
    try:
        return function(task, *arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@lru_cache(maxsize=1)
def _built(pickled: bytes) -> Task[Any]:
    """Return the task of a pickled run file and data folder."""
    run, data_dir = pickle.loads(pickled)  # noqa: S301 (from the parent process)
    return build_task(run, Settings(data_dir=data_dir))
