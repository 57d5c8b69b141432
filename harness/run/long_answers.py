"""Scores long answers in a separate process, because scoring must not block a run.

Scoring usually takes less than a millisecond. It can take seconds if a model repeats itself up to
its token limit (COLLIE: 4 s for 10,000 sentences). Meanwhile the replies of other calls would time
out and be paid for again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.errors import HarnessError, UserError
from harness.ports import Task
from harness.records import Instance, Reply, Score
from harness.run.assessment import Assessment, assess, feedback, reply_outcome
from harness.run.resolving import build_task

R = TypeVar("R")

LONG = 10_000  # answers of at least this many characters are scored in the separate process
MOST_CPU_S = 60  # limit for scoring one answer; an answer that takes longer has no verdict


class LongAnswers:
    """An assessor of answers by the task's rules. Thread-safe.

    Long answers are assessed in a separate process, which starts with the first long answer and
    builds the task from the run file, or loads it if it is also given pickled. If that fails,
    because only this process knows the task, long answers are assessed here too.
    """

    def __init__(
        self,
        task: Task[Any],
        run: RunFile,
        settings: Settings,
        status: Callable[[str], None] = lambda _: None,
        cpu_s: float = MOST_CPU_S,
        pickled: bytes = b"",
    ) -> None:
        self._task, self._status, self._cpu_s = task, status, cpu_s
        self._setup = run, settings.data_dir, cpu_s, pickled
        self._process: subprocess.Popen[bytes] | None = None
        self._here = self._closed = False
        self._lock = Lock()

    def assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        """Assess a reply. If it takes too long, there is no verdict, but a ``problem``."""
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
        if (process := self._process) is not None:
            process.kill()  # also unblocks a thread waiting for its answer
            with self._lock, process:
                self._process = None

    def _run(
        self, function: Callable[..., R], instance: Instance[Any], reply: Reply, *more: object
    ) -> R:
        """Call a function with the task, in the process if the reply is long. May time out."""
        question = b""
        if len(reply.text) >= LONG:
            with contextlib.suppress(pickle.PicklingError, TypeError, AttributeError):
                question = pickle.dumps((function, (instance, reply, *more)))
        if question:
            with self._lock:
                process = self._process = self._process or self._started()
                if process is not None:
                    answer: R = self._answer(process, question)
                    return answer
        return function(self._task, instance, reply, *more)

    def _answer(self, process: subprocess.Popen[bytes], question: bytes) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            answer = pickle.load(process.stdout)  # noqa: S301 (from our own process)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            with contextlib.suppress(BrokenPipeError), process:
                self._process = None
            raise TimeoutError from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _started(self) -> subprocess.Popen[bytes] | None:
        if self._here or self._closed:
            return None
        process = subprocess.Popen(  # noqa: S603 (this program)
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the run, which ends this process
        )
        try:
            self._answer(process, pickle.dumps(self._setup))
        except TimeoutError:  # the task cannot be built there
            self._here = True
            return None
        return process


def _main() -> None:
    """Answer the questions that the parent process writes to standard input, until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a task's own prints must not reach the parent
    questions = sys.stdin.buffer
    run, data_dir, cpu_s, pickled = pickle.load(questions)  # noqa: S301 (from the parent process)
    settings = Settings(data_dir=data_dir)
    task = pickle.loads(pickled) if pickled else build_task(run, settings)  # noqa: S301
    answer: object = None
    while True:
        pickle.dump(answer, answers)  # the first one says that the task is built
        answers.flush()
        try:
            function, arguments = pickle.load(questions)  # noqa: S301 (from the parent process)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process
        try:
            answer = function(task, *arguments)
        except HarnessError as error:
            answer = UserError(error.message, error.remedy)
        except Exception:
            answer = RuntimeError(traceback.format_exc())
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    _main()
