"""Exceptions in a backend's code, which may be any program of the user's.

An exception is the failure of one call: other prompts may be answered. If the code is wrong, it
fails for every prompt, and the run's first session ends before it has asked them all. A later
session asks them all.

If the backend is the application that is tested, its exceptions and time-outs are `Crashed`. An
application that is reached over HTTP or as a command would raise it for a 5xx, a time-out or an
exit code, but not for a refused connection.
"""

import asyncio
import traceback
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path

from harness.config.settings import without_secrets
from harness.errors import CallError, Crashed, FatalCallError, HarnessError, option
from harness.ports import Backend
from harness.records import NO_ANSWER_IN_TIME, Reply, Request
from harness.user_code import is_local

FAILED_FIRST = 10  # calls that must fail before any is answered, for the run to end
HUNG_FIRST = 3  # calls that must hang before any is answered, for the run to end


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
            name, place = type(error).__name__, _place(error)
            text = " ".join(without_secrets(str(error)).split())[:200]
            where = f" ({place[0]}, line {place[1]})" if place else ""
            problem = f"raised {name}{text and f': {text}'}{where}."
            exception = f"{name} at {place[0]}:{place[1]}" if place else name
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
