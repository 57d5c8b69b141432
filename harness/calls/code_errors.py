"""Exceptions in a backend's code, which may be any program of the user's.

An exception is the failure of one call: other prompts may be answered. If the code is wrong, it
fails for every prompt, and the run's first session ends before it has asked them all. A later
session asks them all.
"""

import traceback
from dataclasses import dataclass
from inspect import isawaitable
from math import inf
from pathlib import Path

from harness.config.settings import without_secrets
from harness.errors import CallError, FatalCallError, HarnessError, option
from harness.ports import Backend
from harness.records import Reply, Request
from harness.user_code import is_local

FAILED_FIRST = 10  # calls that must fail before any is answered, for the run to end


@dataclass(eq=False)
class CodeErrors:
    """The lowest layer: calls the backend, and turns exceptions in its code into failed calls."""

    backend: Backend
    ends_run: bool = True  # whether the run may end because the first calls fail

    def __post_init__(self) -> None:
        self._answered = False
        self._begun = self._failed = 0  # counts of calls; ``_begun`` is also the latest's number
        self._in_flight: set[int] = set()  # by number
        # A user's function, called by its name in messages.
        self._function: str = getattr(self.backend, "function_name", "")
        self._last = inf  # the latest call when the run was first about to end

    async def __call__(self, request: Request) -> Reply:
        """Return the backend's reply.

        Raises:
            CallError: If the call fails.
            FatalCallError: If `FAILED_FIRST` calls, and all that were in flight then, have failed
                (only with ``ends_run``).
        """
        self._begun += 1
        number = self._begun
        self._in_flight.add(number)
        cause: Exception | None = None
        try:
            found: object = self.backend.generate(request)
            if isawaitable(found):
                found = await found
                if isinstance(found, Reply):
                    self._answered = True
                    return found
                wanted = "text or a Reply" if self._function else "harness.records.Reply"
                problem = f"returned {found!r:.60}, not a {wanted}."
            else:
                problem = f"must be async, but it returned {found!r:.60}."
        except HarnessError:
            raise
        except Exception as error:
            cause = error
            text = " ".join(without_secrets(str(error)).split())[:200]
            problem = f"raised {type(error).__name__}: {text}{_place(error)}."
        finally:
            self._in_flight.discard(number)
        called = self._function or "The backend's generate"
        raise self._failure(f"{called} {problem}") from cause

    def _failure(self, problem: str) -> CallError:
        self._failed += 1
        if self._failed == FAILED_FIRST:
            self._last = self._begun
        failure = CallError(problem)
        pending = min(self._in_flight, default=inf) <= self._last
        few = self._failed < FAILED_FIRST
        if self.ends_run and not (self._answered or few or pending):
            remedy = f"Fix the cause and run again, with {option('fresh')} if the code has changed."
            remedy += " If other prompts may be answered, run again unchanged: a repeat asks all."
            failure = FatalCallError(f"The first {self._failed} calls failed. {problem}", remedy)
        failure.billed = True  # the code may have called a provider before it failed
        return failure


def _place(error: Exception) -> str:
    """Return the file and line in which an exception was raised, if possible in the user's code."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if is_local(frame.filename)] or frames
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
