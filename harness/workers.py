"""Pools that return results in order and keep few work items in memory.

By default, the work is done by processes on this machine. They run this module, and do not import
the program that started them. They ignore Ctrl-C, and end when that program ends, even if it is
killed.
"""

from __future__ import annotations

import json
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
from harness.execution import code_permission, set_code_permission

T = TypeVar("T")
R = TypeVar("R")

WorkResult: TypeAlias = tuple[Any, Exception | None]
"""A function's result and None, or None and its exception."""

MAX_PENDING_PER_PROCESS = 2  # items submitted per process; more would only take memory


class Workers:
    """A pool of processes.

    Args:
        jobs: The number of processes. With 1, the calling process does the work itself.
        start_after_s: Seconds for which the calling process works alone before the others start. It
            also processes a single item.
    """

    def __init__(self, jobs: int = 1, start_after_s: float = 0.0) -> None:
        self._jobs = jobs
        self._start_after_s = start_after_s
        self._processes = [WorkerProcess() for _ in range(jobs)]
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if "_threads" in vars(self):
            for process in self._processes:
                process.kill()
            self._threads.shutdown(cancel_futures=True)

    def map_in_order(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the results of a function for items, in the order of the items.

        If the function or an item cannot be pickled, the calling process calls the function.

        Raises:
            HarnessError: If a process ends unexpectedly.
        """
        items = iter(items)
        first_two = list(islice(items, 2))
        items = chain(first_two, items)
        alone_until = monotonic() + self._start_after_s
        is_alone = self._jobs == 1 or len(first_two) < 2
        for item in items if is_alone or self._start_after_s else ():
            yield function(item)
            if not is_alone and monotonic() >= alone_until:
                break
        pending: deque[Future[Any]] = deque()
        try:
            for item in items:
                pending.append(self._submit(function, item))
                while len(pending) >= self._jobs * MAX_PENDING_PER_PROCESS:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _submit(self, function: Callable[[T], R], item: T) -> Future[Any]:
        try:
            return self._threads.submit(self._call_in_process, pickle.dumps((function, item)))
        except (pickle.PicklingError, TypeError, AttributeError):
            future: Future[R] = Future()
            future.set_result(function(item))
            return future

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        for process in self._processes:
            self._idle.put(process)
        return ThreadPoolExecutor(self._jobs)

    def _call_in_process(self, pickled_call: bytes) -> Any:
        process = self._idle.get()
        try:
            return process.call(pickled_call)
        finally:
            self._idle.put(process)


_WORKER_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    f"from {__name__} import _main; _main()"
)


class ProcessEnded(HarnessError):
    """A worker process ended before it returned a result."""


class WorkerProcess:
    """A process that makes one call at a time. It starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._killed = False
        self._code_permission = code_permission()

    @cached_property
    def _process(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 (this program)
            # Without -P, the modules of the current folder, which may be another's, come first.
            [sys.executable, "-P", "-c", _WORKER_CODE, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the calling process, which ends this one
        )
        _write_message(process.stdin, pickle.dumps((sys.path, self._code_permission)))
        return process

    def call(self, pickled_call: bytes) -> Any:
        """Call a function in the process, and return its result or raise its exception.

        Args:
            pickled_call: The pickled pair of the function and its only argument.

        Raises:
            ProcessEnded: If the process ends before it returns a result.
        """
        try:
            with self._lock:
                if self._killed:
                    raise EOFError
                process = self._process
            _write_message(process.stdin, pickled_call)
            result = pickle.load(process.stdout)  # type: ignore[arg-type]  # noqa: S301
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            remedy = "It may have run out of memory: use fewer --jobs, or free some memory. "
            message = "A worker process ended before its work was done."
            raise ProcessEnded(message, remedy + "Then run the command again.") from None
        return unwrap_result(result)

    def kill(self) -> None:
        """Kill the process, if it has started, even while it is working."""
        with self._lock:
            self._killed = True
        if "_process" in vars(self):
            self._process.kill()
            self._process.communicate()


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write_message(pipe: Any, message: bytes) -> None:
    pipe.write(len(message).to_bytes(8) + message)
    pipe.flush()


def _main() -> None:
    """Make the calls that the parent process writes to standard input, until it is closed."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not reach the parent
    logging.getLogger("harness").setLevel(logging.ERROR)  # the parent has already warned
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_messages, args=(messages,), daemon=True).start()
    sys.path[:], permission = pickle.loads(messages.get())  # noqa: S301 (from the parent process)

    def make_next_call() -> Any:
        function, item = pickle.loads(messages.get())  # noqa: S301 (from the parent process)
        return function(item)

    with set_code_permission(permission):
        while True:
            results.write(pickle.dumps(capture_result(make_next_call)))
            results.flush()


def capture_result(function: Callable[[], Any]) -> WorkResult:
    """Call a function, and return its result or its exception in a form that can be pickled."""
    try:
        return function(), None
    except Exception as error:
        return None, _picklable_error(error)


def unwrap_result(result: WorkResult) -> Any:
    """Return the value that `capture_result` has captured, or raise the exception."""
    returned, error = result
    if error is not None:
        raise error
    return returned


def _read_messages(messages: SimpleQueue[bytes]) -> None:
    read = sys.stdin.buffer.read
    while len(size := read(8)) == 8:
        messages.put(read(int.from_bytes(size)))
    os._exit(1)  # the parent process has ended, perhaps while this one is working


def _picklable_error(error: Exception) -> Exception:
    """Return a copy of an error that can be pickled, as a RuntimeError if necessary."""
    text = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
    except Exception:
        return RuntimeError(text)
    if not isinstance(error, HarnessError):
        error.add_note(text)
    return error
