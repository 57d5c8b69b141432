"""The layers around a backend: its start, the time limit of a call, and exceptions in its code.

While the process is suspended (Ctrl-Z, ``docker pause``), the clock continues. When the process
resumes, its calls may be overdue, but the paid replies are waiting in the sockets.

A backend's code may be any program of the user's. An exception is the failure of one call: other
prompts may be answered. If the code is wrong, it fails for every prompt, and the run's first
session ends before it has asked them all. A later session asks them all.

If the backend is the application that is tested, its exceptions and time-outs are `Crashed`. An
application that is reached over HTTP or as a command would raise it for a 5xx, a time-out or an
exit code, but not for a refused connection.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness.calls.signals import Ask, Report, Stop, Stopping
from harness.config.settings import mask_secrets
from harness.errors import (
    CallError,
    Crashed,
    FatalCallError,
    HarnessError,
    PromptRefused,
    TransientError,
    option,
)
from harness.ports import Backend
from harness.records import NO_ANSWER_IN_TIME, Reply, Request, Usage, replace_surrogates
from harness.user_code import is_local

MIN_FAILED_CALLS = 10  # the run may end once this many calls have failed and none was answered
MIN_HUNG_CALLS = 3  # the run may end once this many calls have hung and none was answered
PAUSE_DETECTED_S = 0.1  # a timer that fires later by more seconds shows that the process paused
GRACE_S = 10.0
"""Seconds that calls get after a pause, to read the replies that arrived during the pause.

If the time limit is shorter, they get as many seconds as the limit.
"""
TURNS_BEFORE_CANCEL = 10
"""How many turns of the event loop a late task gets before it is cancelled.

In each turn, the loop reads data that has arrived at the sockets.
"""


def timeout_error(seconds: float) -> CallError:
    """Return the error of a provider's call that exceeded its time limit. Circuits retry it."""
    return TransientError(
        f"No complete answer within {seconds:g} s.",
        "Raise limits.timeout_s if the model is slow.",
        kind="timed_out",
    )


@dataclass(eq=False)
class TimedCalls:
    """The layer that limits the time of each call.

    Args:
        ask: The layer below.
        timeout_s: The time limit in seconds.
        timeout_error: Returns the error of a call that exceeds the limit, given the limit.
        clock: Returns the time in seconds.
    """

    ask: Ask
    timeout_s: float
    timeout_error: Callable[[float], CallError] = timeout_error
    clock: Callable[[], float] = time.perf_counter

    async def __call__(self, request: Request) -> Reply:
        """Send the request, and return the reply with its latency.

        A refused prompt counts as a reply.

        Raises:
            CallError: If the call fails, or takes longer than ``timeout_s`` seconds.
        """
        sent_at = self.clock()
        try:
            async with TimeLimit(self.timeout_s):
                reply = await self.ask(request)
        except TimeoutError:
            failure = self.timeout_error(self.timeout_s)
            failure.latency_s = max(self.timeout_s, self.clock() - sent_at)
            raise failure from None
        except PromptRefused as error:  # an answer, always the same: cached like any other
            reply = Reply(error.message, "content_filter", Usage())
        except CallError as failure:
            failure.latency_s = self.clock() - sent_at
            raise
        latency_s = self.clock() - sent_at
        if reply.others:
            others = {
                sample: _with_latency(joint_reply, latency_s)
                for sample, joint_reply in reply.others.items()
            }
            reply = replace(reply, others=others)
        return _with_latency(reply, latency_s)


def _with_latency(reply: Reply, latency_s: float) -> Reply:
    """Return the reply with its latency, and with lone surrogates in its text replaced."""
    reasoning = reply.reasoning and replace_surrogates(reply.reasoning)
    return replace(
        reply, text=replace_surrogates(reply.text), reasoning=reasoning, latency_s=latency_s
    )


class TimeLimit:
    """An asynchronous context manager like `asyncio.timeout` that does not count process pauses.

    It raises TimeoutError after ``seconds`` seconds (None: never), or once `expire` is called. Data
    that has already arrived is read first.
    """

    __slots__ = ("_due_at", "_seconds", "_timeout", "_timer", "_turns_left")

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._turns_left = TURNS_BEFORE_CANCEL
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.Handle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._seconds is not None:
            self._start_timer(self._seconds)

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(*error)

    def _start_timer(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due_at = loop.time() + seconds
        self._timer = loop.call_at(self._due_at, self._expire_unless_paused, seconds)

    def _expire_unless_paused(self, seconds: float) -> None:
        delay_s = asyncio.get_running_loop().time() - self._due_at
        if delay_s > PAUSE_DETECTED_S:
            self._start_timer(min(seconds, GRACE_S))
        else:
            self.expire()

    def expire(self) -> None:
        """Cancel the task as soon as data that has arrived is read."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        if self._turns_left:
            self._turns_left -= 1
            self._timer = loop.call_soon(self.expire)
        elif not self._timeout.expired():
            self._timeout.reschedule(loop.time())


@dataclass(eq=False)
class Startup:
    """The layer that starts the backend before its first call, for example a local server.

    Calls wait until the backend is ready or the run stops. Loading a large model takes minutes, so
    this layer is above the limiter and the time limit. It is below the circuit, so that waiting
    uses up no tries.
    """

    ask: Ask
    backend: Backend
    stop: Stop
    status: Report

    def __post_init__(self) -> None:
        self._startup: asyncio.Task[None] | None = None  # shared by all calls
        self.stop.on_stop(self._cancel)

    async def __call__(self, request: Request) -> Reply:
        """Send the request once the backend is ready, and return the reply.

        Raises:
            Stopping: If the run stops first.
            CallError: If the backend cannot be started, or the call fails.
        """
        if not self.backend.ready:
            if self.stop.requested:
                raise Stopping
            if self._startup is None or self._startup.done():
                self._startup = asyncio.create_task(self._start())
            startup = self._startup
            await asyncio.wait({startup})
            if startup.cancelled():
                raise Stopping
            await startup
        return await self.ask(request)

    def _cancel(self) -> None:
        if self._startup is not None:
            self._startup.cancel()

    async def _start(self) -> None:
        try:
            await self.backend.start(self.status)
        finally:
            self.status("")


@dataclass(eq=False)
class ModelAnswers:
    """Whether a model has answered any call. Until then, its code may be wrong."""

    has_any: bool = False


@dataclass(eq=False)
class BackendCalls:
    """The lowest layer: calls the backend, and turns exceptions in its code into failed calls."""

    backend: Backend
    may_end_run: bool = True  # whether the run may end because the first calls fail
    is_application: bool = False  # whether the backend is the system under test: it may crash
    answers: ModelAnswers = field(default_factory=ModelAnswers)

    def __post_init__(self) -> None:
        self._n_failed = 0  # including calls that hung
        self._n_hung = 0
        self._in_flight: set[object] = set()
        # The calls in flight that may still prevent the end of the run (None: too few have failed).
        self._awaited: set[object] | None = None
        self._function_name = self.backend.function_name  # of a user's function, else empty

    async def __call__(self, request: Request) -> Reply:
        """Call the backend, and return its reply.

        Raises:
            CallError: If the call fails (a `Crashed` if the application raises an exception).
            FatalCallError: If ``may_end_run`` is set and the first `MIN_FAILED_CALLS` calls, and
                all that were in flight with them, have failed.
        """
        call = object()
        self._in_flight.add(call)
        cause: BaseException | None = None
        try:
            reply: object = self.backend.generate(request)
            is_async = isawaitable(reply)
            if isawaitable(reply):
                reply = await reply
                if isinstance(reply, Reply):
                    self.answers.has_any = True
                    return reply
            problem = self._describe_result(reply, is_async=is_async)
            exception = f"returned {type(reply).__name__}"
        except HarnessError:
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            is_crash = isinstance(error, Exception) or (
                self.is_application and not _is_task_being_cancelled()
            )
            if not is_crash:
                raise
            cause = error
            problem, exception = _describe_exception(error)
        finally:
            self._in_flight.discard(call)
            if self._awaited is not None:
                self._awaited.discard(call)
        raise self._record_failure(problem, exception) from cause

    def timeout_error(self, seconds: float) -> CallError:
        """Return the error of an application's call that exceeded its time limit (seconds)."""
        self._n_hung += 1
        problem = f"gave no complete answer within {seconds:g} s (limits.timeout_s)."
        return self._record_failure(problem, NO_ANSWER_IN_TIME)

    def _describe_result(self, result: object, *, is_async: bool) -> str:
        if not is_async:
            return f"must be async, but it returned {result!r:.60}."
        expected = "text or a Reply" if self._function_name else "harness.records.Reply"
        return f"returned {result!r:.60}, not a {expected}."

    def _record_failure(self, problem: str, exception: str) -> CallError:
        """Count a failed call, and return its error, which may end the run."""
        self._n_failed += 1
        has_failed_often = self._n_failed >= MIN_FAILED_CALLS or self._n_hung >= MIN_HUNG_CALLS
        if has_failed_often and self._awaited is None:
            self._awaited = set(self._in_flight)
        ends_run = self.may_end_run and not self.answers.has_any and has_failed_often
        caller = self._function_name or "The backend's generate"
        problem = f"{caller} {problem}"
        error = Crashed(problem) if self.is_application else CallError(problem)
        if ends_run and not self._awaited:
            remedy = f"Fix the cause and run again, with {option('fresh')} if the code has changed."
            remedy += " If other prompts may be answered, run again unchanged: a repeat asks all."
            error = FatalCallError(f"The first {self._n_failed} calls failed. {problem}", remedy)
        error.billed = True  # the code may have called a provider before it failed
        error.exception = exception
        return error


def _is_task_being_cancelled() -> bool:
    """Return whether the run cancels the current task. If not, its code has ended it."""
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


def _describe_exception(error: BaseException) -> tuple[str, str]:
    """Describe an exception in the user's code: for a message, and as recorded with the attempt.

    Both name the line that raised it, in the user's code if possible.
    """
    exception = type(error).__name__
    problem = f"raised {exception}"
    if text := " ".join(mask_secrets(str(error)).split())[:200]:
        problem += f": {text}"
    frames = traceback.extract_tb(error.__traceback__)[1:]
    frames = [frame for frame in frames if is_local(frame.filename)] or frames
    if frames:
        file = Path(frames[-1].filename).name
        line = frames[-1].lineno
        exception += f" at {file}:{line}"
        problem += f" ({file}, line {line})"
    return f"{problem}.", exception
