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
from typing import Any

import msgspec

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.errors import HarnessError, UserError
from harness.ports import Task
from harness.records import Instance, Reply, Score
from harness.run.assessment import Assessment, assess, feedback, reply_outcome
from harness.run.models import build_task

LONG = 10_000  # answers of at least this many characters are scored in the separate process
MOST_CPU_S = 60  # for scoring one answer; an answer that takes longer has no verdict


class _Scored(msgspec.Struct, array_like=True):
    """The scoring process's response to one answer."""

    found: Assessment | None = None
    turn: str = ""  # the feedback, if it was asked for
    error: str = ""
    remedy: str = ""
    expected: bool = True  # if not, the error is a bug


class LongAnswers:
    """An assessor of answers by the task's rules. Thread-safe.

    Long answers are assessed in a separate process, which starts with the first long answer and
    builds the task from the run file. If the process cannot build the task (because it exists only
    in this process), long answers are assessed here too.
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
        self._setup = run, settings.data_dir, cpu_s
        self._process: subprocess.Popen[bytes] | None = None
        self._here = self._closed = False
        self._lock = Lock()
        self.unscored = 0

    def assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        """Assess a reply.

        If scoring takes too long, the assessment has no verdict, and its ``problem`` says so.
        """
        if len(reply.text) < LONG:
            return assess(self._task, instance, reply)
        said = self._ask(instance, reply, None)
        if said is None:
            return assess(self._task, instance, reply)
        if said.found is not None:
            return said.found
        with self._lock:
            self.unscored += 1
        took = f"took more than {self._cpu_s:g} s of CPU time"
        self._status(
            f"{self.unscored:,} answers have no verdict: scoring one of {len(reply.text):,} "
            f"characters {took}."
        )
        problem = f"not scored: scoring {took}"
        # A score without a value keeps a judge from deciding alone.
        scores = {"scored": Score(None, None, problem)}
        return Assessment(reply_outcome(reply), None, scores, problem)

    def feedback(self, instance: Instance[Any], reply: Reply, found: Assessment) -> str:
        """Return the user's next message after a reply, or "" if producing it takes too long."""
        said = self._ask(instance, reply, found) if len(reply.text) >= LONG else None
        return feedback(self._task, instance, reply, found) if said is None else said.turn

    def close(self) -> None:
        """End the process, even while it is working."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()  # also unblocks a thread waiting for its answer
            with self._lock, process:
                self._process = None

    def _ask(
        self, instance: Instance[Any], reply: Reply, found: Assessment | None
    ) -> _Scored | None:
        """Have the process assess a reply or, given its assessment ``found``, write feedback on it.

        Return None if the process cannot be used, and an empty `_Scored` if it took too long.
        """
        try:
            question = pickle.dumps((instance, reply, found))
        except (pickle.PicklingError, TypeError, AttributeError):
            return None
        with self._lock:
            process = self._process = self._process or self._started()
            if process is None:
                return None
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(question)
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            if not line.endswith(b"\n"):
                with process:
                    self._process = None
                return _Scored()
        said = msgspec.json.decode(line, type=_Scored)
        if said.error:
            raise UserError(said.error, said.remedy) if said.expected else RuntimeError(said.error)
        return said

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
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(self._setup, process.stdin)
            process.stdin.flush()
            if process.stdout.readline():
                return process
        with contextlib.suppress(BrokenPipeError), process:
            self._here = True
        return None


def _main() -> None:
    """Score the answers that the parent process writes to standard input, until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a task's own prints must not reach the parent
    questions = sys.stdin.buffer
    run, data_dir, cpu_s = pickle.load(questions)  # noqa: S301 (from the parent process)
    task = build_task(run, Settings(data_dir=data_dir))
    answers.write(b"ready\n")
    while True:
        answers.flush()
        try:
            instance, reply, found = pickle.load(questions)  # noqa: S301 (from the parent process)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process
        try:
            if found is None:
                said = _Scored(assess(task, instance, reply))
            else:
                said = _Scored(found, feedback(task, instance, reply, found))
        except HarnessError as error:
            said = _Scored(error=error.message, remedy=error.remedy)
        except Exception:
            said = _Scored(error=traceback.format_exc(), expected=False)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(msgspec.json.encode(said) + b"\n")


if __name__ == "__main__":
    _main()
