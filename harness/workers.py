"""Pools that return results in order and keep few work items in memory.

By default, the work is done by processes of this machine. They run this module, and do not import
the program that started them. They ignore Ctrl-C, and end when that program ends, even if it is
killed.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from harness.errors import HarnessError
from harness.execution import executing, permission

T = TypeVar("T")
R = TypeVar("R")

Answer: TypeAlias = tuple[Any, Exception | None]
"""The result of some work, or the exception that it raised."""

PENDING = 2  # pieces submitted per process; more would only take memory


class Workers:
    """A pool of ``jobs`` processes. If ``jobs`` is 1, the calling process does the work itself.

    The calling process also does the work of the first ``alone_s`` seconds, and a single piece.
    """

    def __init__(self, jobs: int = 1, alone_s: float = 0.0) -> None:
        self._jobs = jobs
        self._alone_s = alone_s
        self._processes = [WorkerProcess() for _ in range(jobs)]
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if "_threads" in vars(self):
            for process in self._processes:
                process.kill()
            self._threads.shutdown(cancel_futures=True)

    def in_order(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``work(piece)`` for each piece, in the order of the pieces.

        If ``work`` or a piece cannot be pickled for another process, the calling process does the
        work.

        Raises:
            HarnessError: If a process ends unexpectedly.
        """
        pieces = iter(pieces)
        first = list(islice(pieces, 2))
        pieces = chain(first, pieces)
        alone_until = monotonic() + self._alone_s
        alone = self._jobs == 1 or len(first) < 2
        for piece in pieces if alone or self._alone_s else ():
            yield work(piece)
            if not alone and monotonic() >= alone_until:
                break
        pending: deque[Future[Any]] = deque()
        try:
            for piece in pieces:
                pending.append(self._submit(work, piece))
                while len(pending) >= self._jobs * PENDING:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _submit(self, work: Callable[[T], R], piece: T) -> Future[Any]:
        try:
            return self._threads.submit(self._answer, pickle.dumps((work, piece)))
        except (pickle.PicklingError, TypeError, AttributeError):
            future: Future[R] = Future()
            future.set_result(work(piece))
            return future

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        for process in self._processes:
            self._idle.put(process)
        return ThreadPoolExecutor(self._jobs)

    def _answer(self, question: bytes) -> Any:
        process = self._idle.get()
        try:
            return process.answer(question)
        finally:
            self._idle.put(process)


class ProcessEnded(HarnessError):
    """A process has ended before its work was done."""


class WorkerProcess:
    """A process that answers one question at a time, and starts when the first is asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._killed = False
        self._permission = permission()

    @cached_property
    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 (this program)
            [sys.executable, "-c", f"from {__name__} import _main; _main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the calling process, which ends this one
        )
        _send(process.stdin, pickle.dumps((sys.path, self._permission)))
        return process

    def answer(self, question: bytes) -> Any:
        """Return the result of a function, or raise its error.

        ``question`` is the pickled pair of the function and its argument.

        Raises:
            ProcessEnded: If the process ends before it has answered.
        """
        try:
            with self._lock:
                if self._killed:
                    raise EOFError
                process = self._started
            _send(process.stdin, question)
            answer = pickle.load(process.stdout)  # type: ignore[arg-type]  # noqa: S301
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            remedy = "It may have run out of memory: use fewer --jobs, or free some memory. "
            message = "A worker process ended before its work was done."
            raise ProcessEnded(message, remedy + "Then run the command again.") from None
        return result_of(answer)

    def kill(self) -> None:
        """End the process, if it has started, even while it is working."""
        with self._lock:
            self._killed = True
        if "_started" in vars(self):
            self._started.kill()
            self._started.communicate()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _send(pipe: Any, message: bytes) -> None:
    pipe.write(len(message).to_bytes(8) + message)
    pipe.flush()


def _main() -> None:
    """Answer the questions that the parent process writes to standard input, until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not reach the parent
    logging.getLogger("harness").setLevel(logging.ERROR)  # the parent has already warned
    questions: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    sys.path[:], allowed = pickle.loads(questions.get())  # noqa: S301 (from the parent process)

    def worked() -> Any:
        work, piece = pickle.loads(questions.get())  # noqa: S301 (from the parent process)
        return work(piece)

    with executing(allowed):
        while True:
            answers.write(pickle.dumps(answer_of(worked)))
            answers.flush()


def answer_of(work: Callable[[], Any]) -> Answer:
    """Return the result of a function, or the exception that it raised, to be pickled."""
    try:
        return work(), None
    except Exception as raised:
        return None, _portable(raised)


def result_of(answer: Answer) -> Any:
    """Return the result in an answer, or raise its exception."""
    result, error = answer
    if error is not None:
        raise error
    return result


def _read(questions: SimpleQueue[bytes]) -> None:
    read = sys.stdin.buffer.read
    while len(size := read(8)) == 8:
        questions.put(read(int.from_bytes(size)))
    os._exit(1)  # the parent process has ended, perhaps while this one is working


def _portable(error: Exception) -> Exception:
    """Return a copy of an error made by pickling, or a RuntimeError if it cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
    except Exception:
        return RuntimeError(text)
    if not isinstance(error, HarnessError):
        error.add_note(text)
    return error
