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
from harness.config.settings import without_secrets
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

FAILED_FIRST = 10  # calls that must fail before any is answered, for the run to end
HUNG_FIRST = 3  # calls that must hang before any is answered, for the run to end
LATE_S = 0.1  # if the timer fires more than this many seconds late, the process has been paused
GRACE_S = 10.0
"""Seconds that calls get after a pause, to read the replies that arrived during the pause.

If the time limit is shorter, they get as many seconds as the limit.
"""
PASSES = 10
"""How many turns of the event loop a late task gets before it is cancelled.

In each turn, the loop reads data that has arrived at the sockets.
"""


def timed_out(seconds: float) -> CallError:
    """Return the error of a call to a provider that takes too long. The call is retried."""
    return TransientError(
        f"No complete answer within {seconds:g} s.",
        "Raise limits.timeout_s if the model is slow.",
        kind="timed_out",
    )


@dataclass(eq=False)
class Timed:
    """The layer that waits for the backend for at most ``timeout_s`` seconds.

    ``hung`` returns the error of a call that takes longer, given the limit.
    """

    ask: Ask
    timeout_s: float
    hung: Callable[[float], CallError] = timed_out
    clock: Callable[[], float] = time.perf_counter

    async def __call__(self, request: Request) -> Reply:
        """Return the backend's reply with the call's latency. A refused prompt counts as a reply.

        Raises:
            CallError: If the call fails, or takes longer than ``timeout_s`` seconds.
        """
        sent = self.clock()
        try:
            async with TimeLimit(self.timeout_s):
                reply = await self.ask(request)
        except TimeoutError:
            failure = self.hung(self.timeout_s)
            failure.latency_s = max(self.timeout_s, self.clock() - sent)
            raise failure from None
        except PromptRefused as error:  # an answer, always the same: cached like any other
            reply = Reply(error.message, "content_filter", Usage())
        except CallError as failure:
            failure.latency_s = self.clock() - sent
            raise
        latency_s = self.clock() - sent
        if reply.others:
            others = {
                n: _finished(joint_reply, latency_s) for n, joint_reply in reply.others.items()
            }
            reply = replace(reply, others=others)
        return _finished(reply, latency_s)


def _finished(reply: Reply, latency_s: float) -> Reply:
    """Return a reply with its latency, and with text that UTF-8 can encode."""
    reasoning = reply.reasoning and replace_surrogates(reply.reasoning)
    return replace(
        reply, text=replace_surrogates(reply.text), reasoning=reasoning, latency_s=latency_s
    )


class TimeLimit:
    """A context manager like `asyncio.timeout` whose time excludes pauses of the process.

    It raises TimeoutError after a number of seconds (None: never), or once `expire` is called. Data
    that has already arrived is read first.
    """

    __slots__ = ("_due", "_passes", "_seconds", "_timeout", "_timer")

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._passes = PASSES
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.Handle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._seconds is not None:
            self._wait(self._seconds)

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(*error)

    def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + seconds
        self._timer = loop.call_at(self._due, self._check, seconds)

    def _check(self, seconds: float) -> None:
        if asyncio.get_running_loop().time() - self._due > LATE_S:
            self._wait(min(seconds, GRACE_S))
        else:
            self.expire()

    def expire(self) -> None:
        """Cancel the task now, after data that has arrived is read."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        if self._passes:
            self._passes -= 1
            self._timer = loop.call_soon(self.expire)
        elif not self._timeout.expired():
            self._timeout.reschedule(loop.time())


@dataclass(eq=False)
class Startup:
    """The layer that prepares a backend for its first call, such as by starting a local server.

    Calls wait until the backend is ready or the run stops. As loading a large model takes minutes,
    this layer is above the limiter, below which calls have a time limit. It is below the circuit so
    that waiting uses up no tries.
    """

    ask: Ask
    backend: Backend
    stop: Stop
    status: Report

    def __post_init__(self) -> None:
        self._startup: asyncio.Task[None] | None = None  # which all calls share
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
    """Whether any call to a model has been answered. Until then, its code may be wrong."""

    any: bool = False


@dataclass(eq=False)
class CodeErrors:
    """The lowest layer: calls the backend, and turns exceptions in its code into failed calls."""

    backend: Backend
    ends_run: bool = True  # whether the run may end because the first calls fail
    application: bool = False  # whether the backend is tested: its exceptions are crashes
    answered: ModelAnswers = field(default_factory=ModelAnswers)

    def __post_init__(self) -> None:
        self._failed = 0  # calls, including those that hung
        self._hung = 0
        self._in_flight: set[object] = set()
        # The calls that were in flight when enough had failed to end the run, and still are.
        self._awaited: set[object] | None = None
        # A user's function, called by its name in messages.
        self._function = self.backend.function_name

    async def __call__(self, request: Request) -> Reply:
        """Return the backend's reply.

        Raises:
            CallError: If the call fails (a `Crashed` if the application raises an exception).
            FatalCallError: If `FAILED_FIRST` calls, and all that were in flight then, have failed
                (only with ``ends_run``).
        """
        call = object()
        self._in_flight.add(call)
        cause: BaseException | None = None
        try:
            reply: object = self.backend.generate(request)
            if isawaitable(reply):
                reply = await reply
                if isinstance(reply, Reply):
                    self.answered.any = True
                    return reply
                expected = "text or a Reply" if self._function else "harness.records.Reply"
                problem = f"returned {reply!r:.60}, not a {expected}."
            else:
                problem = f"must be async, but it returned {reply!r:.60}."
            exception = f"returned {type(reply).__name__}"
        except HarnessError:
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if not isinstance(error, Exception) and not (self.application and _ends_itself()):
                raise
            cause = error
            exception = type(error).__name__
            problem = f"raised {exception}"
            if text := " ".join(without_secrets(str(error)).split())[:200]:
                problem += f": {text}"
            if place := _place(error):
                file, line = place
                exception += f" at {file}:{line}"
                problem += f" ({file}, line {line})"
            problem += "."
        finally:
            self._in_flight.discard(call)
            if self._awaited is not None:
                self._awaited.discard(call)
        raise self._failure(problem, exception) from cause

    def hung(self, seconds: float) -> CallError:
        """Return the failure of a call to the application that took longer than its time limit."""
        self._hung += 1
        problem = f"gave no complete answer within {seconds:g} s (limits.timeout_s)."
        return self._failure(problem, NO_ANSWER_IN_TIME)

    def _failure(self, problem: str, exception: str) -> CallError:
        called = self._function or "The backend's generate"
        problem = f"{called} {problem}"
        self._failed += 1
        enough = self._failed >= FAILED_FIRST or self._hung >= HUNG_FIRST
        if enough and self._awaited is None:
            self._awaited = set(self._in_flight)
        failure = Crashed(problem) if self.application else CallError(problem)
        if self.ends_run and not self.answered.any and enough and not self._awaited:
            remedy = f"Fix the cause and run again, with {option('fresh')} if the code has changed."
            remedy += " If other prompts may be answered, run again unchanged: a repeat asks all."
            failure = FatalCallError(f"The first {self._failed} calls failed. {problem}", remedy)
        failure.billed = True  # the code may have called a provider before it failed
        failure.exception = exception
        return failure


def _ends_itself() -> bool:
    """Return whether code exits or is cancelled by itself, and not because the run ends it."""
    task = asyncio.current_task()
    return task is not None and not task.cancelling()


def _place(error: BaseException) -> tuple[str, int | None] | None:
    """Return the file and line in which an exception was raised, if possible in the user's code."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    frames = [frame for frame in frames if is_local(frame.filename)] or frames
    return (Path(frames[-1].filename).name, frames[-1].lineno) if frames else None
