"""The layer that draws several samples of a prompt with one call (``limits.samples_per_call``).

Each sample keeps its own key, cache entry and payment. Calls with a seed are not joined: an answer
would depend on the other samples in its call.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from harness.calls.signals import Ask, NotSent
from harness.records import Reply, Request, Usage, content_hash

GATHER_S = 0.05  # seconds that the first request for a prompt waits for others


@dataclass(eq=False, slots=True)
class _Group:
    """Samples of one prompt that wait for the call of another sample."""

    waiting: dict[int, asyncio.Future[Reply | None]] = field(default_factory=dict)
    full: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class JointDraws:
    """The layer that gathers requests for samples of one prompt, and sends one request for all.

    The first request is sent, with the numbers of the other samples in ``others``. A sample that
    the reply lacks is requested again.

    Args:
        ask: The layers below.
        most: Maximum number of samples per call.
        gathering_s: How many seconds the first request waits for others.
    """

    ask: Ask
    max_samples: int
    gather_s: float = GATHER_S

    def __post_init__(self) -> None:
        self._open: dict[str, _Group] = {}

    async def __call__(self, request: Request) -> Reply:
        """Return a request's reply, which may come from a call for several samples."""
        if request.seed is not None or request.loglikelihoods:
            return await self.ask(request)
        parameters = request.decoding.specified_fields()
        prompt = content_hash((request.model, request.messages, parameters, request.redraw))
        while True:
            group = self._open.get(prompt)
            if group is None or request.sample in group.waiting:
                return await self._lead(prompt, request)
            answer: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
            group.waiting[request.sample] = answer
            if len(group.waiting) + 1 == self.max_samples:
                del self._open[prompt]
                group.full.set()
            if (reply := await answer) is not None:
                return reply

    async def _lead(self, prompt: str, request: Request) -> Reply:
        """Gather other samples, draw all of them, and return this request's reply."""
        group = self._open[prompt] = _Group()
        try:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.gather_s):
                        await group.full.wait()
            finally:
                if self._open.get(prompt) is group:
                    del self._open[prompt]
            drawn = await self.ask(replace(request, others=tuple(group.waiting)))
        except (NotSent, asyncio.CancelledError):
            _answer(group, {})  # they ask again
            raise
        except BaseException as error:
            for waiting in group.waiting.values():
                if not waiting.done():
                    waiting.set_exception(error)
                    waiting.exception()  # avoids "exception was never retrieved"
            raise
        if not drawn.others:
            _answer(group, {})
            return drawn
        shares = divide_usage(drawn.usage, 1 + len(drawn.others))
        others = zip(drawn.others.items(), shares[1:], strict=True)
        _answer(group, {number: replace(reply, usage=usage) for (number, reply), usage in others})
        await asyncio.sleep(0)  # so that all of them are committed in one transaction
        return replace(drawn, usage=shares[0], others={})


def _answer(group: _Group, replies: dict[int, Reply]) -> None:
    for number, waiting in group.waiting.items():
        if not waiting.done():
            waiting.set_result(replies.get(number))


def divide_usage(usage: Usage | None, parts: int) -> list[Usage | None]:
    """Divide a call's token counts (if known) among its samples: all input goes to the first."""
    return [None] * parts if usage is None else [*usage.split([1, *[0] * (parts - 1)])]
