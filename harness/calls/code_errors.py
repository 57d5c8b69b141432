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
from dataclasses import dataclass
from inspect import isawaitable
from math import inf
from pathlib import Path

from harness.config.settings import without_secrets
from harness.errors import CallError, Crashed, FatalCallError, HarnessError, option
from harness.ports import Backend
from harness.records import NO_ANSWER_IN_TIME, Reply, Request
from harness.user_code import is_local

FAILED_FIRST = 10  # calls that must fail before any is answered, for the run to end
HUNG_FIRST = 3  # calls that must hang before any is answered, for the run to end


@dataclass(eq=False)
class CodeErrors:
    """The lowest layer: calls the backend, and turns exceptions in its code into failed calls."""

    backend: Backend
    ends_run: bool = True  # whether the run may end because the first calls fail
    application: bool = False  # whether the backend is tested: its exceptions are crashes

    def __post_init__(self) -> None:
        self._answered = False
        self._begun = self._failed = 0  # counts of calls; ``_begun`` is also the latest's number
        self._hung = 0
        self._in_flight: set[int] = set()  # by number
        # A user's function, called by its name in messages.
        self._function: str = getattr(self.backend, "function_name", "")
        self._last = inf  # the latest call when the run was first about to end

    async def __call__(self, request: Request) -> Reply:
        """Return the backend's reply.

        Raises:
            CallError: If the call fails (a `Crashed` if the application raises an exception).
            FatalCallError: If `FAILED_FIRST` calls, and all that were in flight then, have failed
                (only with ``ends_run``).
        """
        self._begun += 1
        number = self._begun
        self._in_flight.add(number)
        cause: BaseException | None = None
        try:
            found: object = self.backend.generate(request)
            if isawaitable(found):
                found = await found
                if isinstance(found, Reply):
                    self.count_answer()
                    return found
                wanted = "text or a Reply" if self._function else "harness.records.Reply"
                problem = f"returned {found!r:.60}, not a {wanted}."
            else:
                problem = f"must be async, but it returned {found!r:.60}."
            exception = f"returned {type(found).__name__}"
        except HarnessError:
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if not isinstance(error, Exception) and not (self.application and _is_own(error)):
                raise
            cause = error
            name, place = type(error).__name__, _place(error)
            text = " ".join(without_secrets(str(error)).split())[:200]
            where = f" ({place[0]}, line {place[1]})" if place else ""
            problem = f"raised {name}{text and f': {text}'}{where}."
            exception = f"{name} at {place[0]}:{place[1]}" if place else name
        finally:
            self._in_flight.discard(number)
        raise self._failure(problem, exception) from cause

    def count_answer(self) -> None:
        """Note that a call was answered, if only from the cache: the code is not wrong."""
        self._answered = True

    def hung(self, seconds: float) -> CallError:
        """Return the failure of a call to the application that took longer than its time limit."""
        self._hung += 1
        problem = f"gave no complete answer within {seconds:g} s (limits.timeout_s)."
        return self._failure(problem, NO_ANSWER_IN_TIME)

    def _failure(self, problem: str, exception: str) -> CallError:
        called = self._function or "The backend's generate"
        problem = f"{called} {problem}"
        self._failed += 1
        few = self._failed < FAILED_FIRST and self._hung < HUNG_FIRST
        if not few and self._last == inf:
            self._last = self._begun
        failure = Crashed(problem) if self.application else CallError(problem)
        pending = min(self._in_flight, default=inf) <= self._last
        if self.ends_run and not (self._answered or few or pending):
            remedy = f"Fix the cause and run again, with {option('fresh')} if the code has changed."
            remedy += " If other prompts may be answered, run again unchanged: a repeat asks all."
            failure = FatalCallError(f"The first {self._failed} calls failed. {problem}", remedy)
        failure.billed = True  # the code may have called a provider before it failed
        failure.exception = exception
        return failure


def _is_own(error: BaseException) -> bool:
    """Return whether code exits or is cancelled by itself, and not because the run ends it."""
    task = asyncio.current_task()
    return task is not None and not task.cancelling()


def _place(error: BaseException) -> tuple[str, int | None] | None:
    """Return the file and line in which an exception was raised, if possible in the user's code."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if is_local(frame.filename)] or frames
    return (Path(own[-1].filename).name, own[-1].lineno) if own else None
