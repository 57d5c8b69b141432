"""A simulated model for trying out the harness: seeded, offline, without a key."""

import asyncio
import random
from collections.abc import Callable
from typing import Annotated, Any
from zlib import crc32

from pydantic import Field

from harness.ports import CONSTRAINTS, PARAMETERS, Backend
from harness.records import Reply, Request, Usage

WRONG_ANSWER = "No."
Share = Annotated[float, Field(ge=0, le=1)]


class SimulatedBackend(Backend):
    """A simulated model, which gives the reference answer or, at random, a wrong one.

    Tables mark its results as simulated.

    Args:
        accuracy: Probability that the first answer is correct.
        gain: Share of the remaining wrong answers that each round of feedback corrects.
        latency_s: Mean latency in seconds (exponentially distributed).
        habit: A text given as the answer whatever the question, such as the letter of an option.
        habit_share: Probability of answering with this text.
    """

    features = PARAMETERS | CONSTRAINTS | {"conversation", "simulated", "by_instance"}
    cacheable = False
    endpoint = ""

    def __init__(
        self,
        accuracy: Share = 0.5,
        gain: Share = 0.3,
        latency_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0,
        habit: str = "",
        habit_share: Share = 0.0,
        *,
        gold: Callable[..., str | None],
        wrong: Callable[..., str | None] = lambda *_: None,
        reply: Callable[[Request], str] | None = None,
    ) -> None:
        self._accuracy, self._gain, self._latency_s = accuracy, gain, latency_s
        self._habit, self._habit_share = habit, habit_share
        self._gold, self._wrong, self._reply = gold, wrong, reply

    async def generate(self, request: Request) -> Reply:
        origin = request.origin
        seed, rounds = str(request.seed), 0 if origin.turns else origin.round - 1
        if self._reply is not None:  # judges do not improve with rounds; each draws separately
            asked = crc32(request.messages[-1].content.encode("utf-8", "replace"))
            seed, rounds = f"judge {request.model} {self._accuracy}/{request.sample}/{asked}", 0
        chance = random.Random(f"{seed}/{origin.instance}/{origin.sample}/{origin.round}")
        right = 1 - (1 - self._accuracy) * (1 - self._gain) ** rounds
        # A scripted conversation's turns are answered one by one, and no feedback improves them.
        said = [one.content for one in request.messages if one.role == "assistant"]
        about: tuple[Any, ...] = (origin.instance, said) if origin.turns else (origin.instance,)
        gold = self._reply(request) if self._reply is not None else self._gold(*about)
        text = gold if gold is not None and chance.random() < right else None
        if text is None:
            wrong = None if self._reply is not None else self._wrong(*about)
            text = WRONG_ANSWER if wrong is None else wrong
        if self._habit and chance.random() < self._habit_share:
            text = self._habit
        if self._latency_s:
            await asyncio.sleep(chance.expovariate(1 / self._latency_s))
        length = sum(len(message.content) for message in request.messages)
        usage = Usage(input_tokens=length // 4 + 1, output_tokens=len(text) // 4 + 1)
        return Reply(text, "stop", usage, "simulated")


plugin = SimulatedBackend
