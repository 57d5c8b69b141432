"""A simulated model for trying out the harness: seeded, offline, without a key."""

import asyncio
import random
from collections.abc import Callable
from typing import Annotated, Any
from zlib import crc32

from pydantic import Field

from harness.ports import CONSTRAINTS, DECODING_PARAMETERS, Backend
from harness.records import Reply, Request, Usage

WRONG_ANSWER = "No."
Share = Annotated[float, Field(ge=0, le=1)]


class SimulatedBackend(Backend):
    """A simulated model, which gives the reference answer or, at random, a wrong one.

    Tables mark its results as simulated.

    Args:
        accuracy: Probability that the first answer is correct.
        gain: Share by which each round of feedback lowers the probability of a wrong answer. Each
            round is a new draw: with a gain of 0, it is as often correct as the first answer.
        latency_s: Mean latency in seconds (exponentially distributed).
        habit: A text given as the answer whatever the question, such as the letter of an option.
        habit_share: Probability of answering with this text.
    """

    features = DECODING_PARAMETERS | CONSTRAINTS | {"conversation", "simulated", "by_instance"}
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
        self._accuracy = accuracy
        self._gain = gain
        self._latency_s = latency_s
        self._habit = habit
        self._habit_share = habit_share
        self._gold = gold
        self._wrong = wrong
        self._reply = reply

    async def generate(self, request: Request) -> Reply:
        origin = request.origin
        n_feedback_rounds = 0
        question: list[Any] = [origin.instance]
        if self._reply is not None:  # judges do not improve with rounds; each draws separately
            prompt = crc32(request.messages[-1].content.encode("utf-8", "replace"))
            seed = f"judge {request.model} {self._accuracy}/{request.sample}/{prompt}"
            correct_answer: str | None = self._reply(request)
        else:
            seed = str(request.seed)
            if origin.turns:  # a conversation's turns are answered one by one
                answers = [turn.content for turn in request.messages if turn.role == "assistant"]
                question.append(answers)
            else:
                n_feedback_rounds = origin.round - 1
            correct_answer = self._gold(*question)
        generator = random.Random(f"{seed}/{origin.instance}/{origin.sample}/{origin.round}")
        accuracy = 1 - (1 - self._accuracy) * (1 - self._gain) ** n_feedback_rounds
        text: str | None = None
        if correct_answer is not None and generator.random() < accuracy:
            text = correct_answer
        elif self._reply is None:
            text = self._wrong(*question)
        if text is None:
            text = WRONG_ANSWER
        if self._habit and generator.random() < self._habit_share:
            text = self._habit
        if self._latency_s:
            await asyncio.sleep(generator.expovariate(1 / self._latency_s))
        n_characters = sum(len(message.content) for message in request.messages)
        usage = Usage(input_tokens=n_characters // 4 + 1, output_tokens=len(text) // 4 + 1)
        return Reply(text, "stop", usage, "simulated")
