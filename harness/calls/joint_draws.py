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
    is_full: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class JointDraws:
    """The layer that gathers requests for samples of one prompt, and sends one request for all.

    It sends the first request, with the indices of the other samples in ``others``. A sample that
    the reply lacks is requested again.

    Args:
        ask: The layers below.
        max_samples: Maximum number of samples per call.
        gather_s: How many seconds the first request waits for others.
    """

    ask: Ask
    max_samples: int
    gather_s: float = GATHER_S

    def __post_init__(self) -> None:
        self._open_groups: dict[str, _Group] = {}

    async def __call__(self, request: Request) -> Reply:
        """Send the request, perhaps with other samples, and return the reply to its sample."""
        if request.seed is not None or request.loglikelihoods:
            return await self.ask(request)
        parameters = request.decoding.specified_fields()
        prompt = content_hash((request.model, request.messages, parameters, request.redraw))
        while True:
            group = self._open_groups.get(prompt)
            if group is None or request.sample in group.waiting:
                return await self._draw_group(prompt, request)
            delivery: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
            group.waiting[request.sample] = delivery
            if len(group.waiting) + 1 == self.max_samples:
                del self._open_groups[prompt]
                group.is_full.set()
            if (reply := await delivery) is not None:
                return reply

    async def _draw_group(self, prompt: str, request: Request) -> Reply:
        """Gather other samples of a prompt, draw all of them, and return this request's reply."""
        group = _Group()
        self._open_groups[prompt] = group
        try:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.gather_s):
                        await group.is_full.wait()
            finally:
                if self._open_groups.get(prompt) is group:
                    del self._open_groups[prompt]
            joint_reply = await self.ask(replace(request, others=tuple(group.waiting)))
        except (NotSent, asyncio.CancelledError):
            _deliver(group, {})  # the other samples are requested again
            raise
        except BaseException as error:
            for delivery in group.waiting.values():
                if not delivery.done():
                    delivery.set_exception(error)
                    delivery.exception()  # avoids "exception was never retrieved"
            raise
        if not joint_reply.others:
            _deliver(group, {})
            return joint_reply
        usages = divide_usage(joint_reply.usage, 1 + len(joint_reply.others))
        replies: dict[int, Reply] = {}
        for (sample, reply), usage in zip(joint_reply.others.items(), usages[1:], strict=True):
            replies[sample] = replace(reply, usage=usage)
        _deliver(group, replies)
        await asyncio.sleep(0)  # so that all of them are committed in one transaction
        return replace(joint_reply, usage=usages[0], others={})


def _deliver(group: _Group, replies: dict[int, Reply]) -> None:
    """Deliver replies to a group's waiting samples. Samples without a reply get None."""
    for sample, delivery in group.waiting.items():
        if not delivery.done():
            delivery.set_result(replies.get(sample))


def divide_usage(usage: Usage | None, n_samples: int) -> list[Usage | None]:
    """Divide a call's token counts (None: unknown) among its samples. The first gets all input."""
    if usage is None:
        return [None] * n_samples
    weights = [1, *[0] * (n_samples - 1)]
    return [*usage.split(weights)]
