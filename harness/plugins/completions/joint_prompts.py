"""Gathers calls that differ only in their prompts, so that one HTTP request sends several prompts.

For the layers above, each prompt remains a separate call, with its key, cache entry, retries,
limits and attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.errors import CallError, RequestRejected, TransientError
from harness.records import Reply, Request

GATHERING_S = 0.005  # seconds that the first call waits for others

Outcome = Reply | CallError


@dataclass(eq=False, slots=True)
class _Group:
    requests: list[Request]
    most: int
    answers: list[asyncio.Future[Outcome | None]] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class JointPrompts:
    """Sends calls of one kind together.

    If a server rejects a joint request because of one prompt, each prompt is sent alone. Any other
    failure of the request fails all of its calls. Because one prompt may be its cause, a prompt is
    then sent with half as many others as before, and alone after a time-out.

    Args:
        most: Maximum number of prompts per HTTP request.
        together: Sends several prompts, and returns an outcome for each.
        alone: Sends one prompt.
    """

    most: int
    together: Callable[[Sequence[Request]], Awaitable[Sequence[Outcome]]]
    alone: Callable[[Request], Awaitable[Reply]]

    def __post_init__(self) -> None:
        self._open: dict[Hashable, _Group] = {}
        self._fewer: dict[Hashable, int] = {}
        """The maximum number of prompts per request for those whose last request has failed."""

    async def __call__(self, kind: Hashable, request: Request) -> Reply:
        call = request.messages, request.sample, request.redraw
        most = self._fewer.get(call, self.most)
        if most == 1:
            reply = await self.alone(request)
        else:
            try:
                reply = await self._answer((kind, most), request, most)
            except asyncio.CancelledError:
                self._fewer[call] = 1
                raise
            except CallError as error:
                if error.shared:
                    self._fewer[call] = most // 2
                raise
        self._fewer.pop(call, None)
        return reply

    async def _answer(self, kind: Hashable, request: Request, most: int) -> Reply:
        if (group := self._open.get(kind)) is None:
            outcome = await self._lead(kind, request, most)
        else:
            group.requests.append(request)
            answer: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
            group.answers.append(answer)
            if len(group.requests) == group.most:
                del self._open[kind]
                group.full.set()
            outcome = await answer
        if outcome is None:
            return await self.alone(request)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    async def _lead(self, kind: Hashable, request: Request, most: int) -> Outcome | None:
        """Gather and send calls. Return this call's outcome, or None if it must be sent alone."""
        group = self._open[kind] = _Group([request], most)
        outcomes: Sequence[Outcome | None] = [None]
        try:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATHERING_S):
                        await group.full.wait()
            finally:
                if self._open.get(kind) is group:
                    del self._open[kind]
            if group.answers:
                outcomes = await self.together(group.requests)
        except RequestRejected:
            outcomes = [None] * len(group.requests)
        except CallError as error:
            error.shared = True
            outcomes = [error] * len(group.requests)
        except BaseException:  # such as a time limit: whether the server answers is unknown
            problem = "The HTTP request was abandoned by another call that it was sent for."
            abandoned = TransientError(problem, kind="interrupted")
            abandoned.shared = True
            outcomes = [abandoned] * len(group.requests)
            raise
        finally:
            for answer, outcome in zip(group.answers, outcomes[1:], strict=True):
                if not answer.done():
                    answer.set_result(outcome)
        return outcomes[0]
