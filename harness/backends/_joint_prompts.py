"""Gathers calls that differ only in their prompts, so that one HTTP request sends several prompts.

For the layers above, each prompt remains a separate call, with its key, cache entry, retries,
limits and attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.errors import CallError, RequestRejected, TransientError
from harness.records import Reply, Request, Usage

GATHERING_S = 0.005  # seconds that the first call waits for others

Outcome = Reply | CallError


@dataclass(eq=False, slots=True)
class _Group:
    requests: list[Request]
    answers: list[asyncio.Future[Outcome | None]] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class JointPrompts:
    """Sends calls of one kind together.

    If a server rejects a joint request because of one prompt, each prompt is sent alone. Any other
    failure of the request fails all of its calls.

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

    async def __call__(self, kind: Hashable, request: Request) -> Reply:
        if (group := self._open.get(kind)) is None:
            outcome = await self._lead(kind, request)
        else:
            group.requests.append(request)
            answer: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
            group.answers.append(answer)
            if len(group.requests) == self.most:
                del self._open[kind]
                group.full.set()
            outcome = await answer
        if outcome is None:
            return await self.alone(request)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    async def _lead(self, kind: Hashable, request: Request) -> Outcome | None:
        """Gather and send calls. Return this call's outcome, or None if it must be sent alone."""
        group = self._open[kind] = _Group([request])
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
            outcomes = [error] * len(group.requests)
        except BaseException:  # such as a time limit: whether the server answers is unknown
            problem = "The HTTP request was abandoned by another call that it was sent for."
            outcomes = [TransientError(problem, kind="interrupted")] * len(group.requests)
            raise
        finally:
            for answer, outcome in zip(group.answers, outcomes[1:], strict=True):
                if not answer.done():
                    answer.set_result(outcome)
        return outcomes[0]


def shares(usage: Usage | None, requests: Sequence[Request]) -> list[Usage | None]:
    """Divide a joint request's token counts among its calls, so that the parts add up to the whole.

    The input is divided in proportion to the prompts' UTF-8 bytes, and the output equally.
    """
    if usage is None:
        return [None] * len(requests)
    sizes = (1 + sum(len(m.content.encode()) for m in one.messages) for one in requests)
    return [*usage.divided(list(sizes))]
