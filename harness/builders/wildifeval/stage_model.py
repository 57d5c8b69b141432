"""The model that a stage asks, and the requests that are made of a stage's questions.

>>> model.request(Question("chat-1", "Is it toxic?"), decoding, 0, seed=0)  # doctest: +SKIP
Request(model='m', messages=(Message(role='user', content='Is it toxic?'),), …)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.builders.wildifeval.questions import Question
from harness.calls.calls import Calls
from harness.calls.key import provider_seed
from harness.config.prices import Price
from harness.errors import ConfigError
from harness.records import Call, Decoding, Message, Origin, Request, messages_hash

OPTIONAL = ("temperature", "max_tokens")
"""Of a question's decoding, what is left out where the backend does not take it."""


@dataclass(frozen=True, slots=True)
class StageModel:
    """The model that a stage asks.

    calls: its call stack; features: its backend's.
    cost: what a call has cost in US dollars, None where that is not known.
    price: None where it is not known.
    workers: how many ask at the same time.
    """

    calls: Calls
    backend: str
    endpoint: str
    name: str
    features: frozenset[str]
    cost: Callable[[Call], float | None]
    price: Price | None
    workers: int

    def taken(self, decoding: Decoding, stage: str) -> Decoding:
        """The decoding, without what the backend does not take and nobody needs.

        Raises: ConfigError.
        """
        refused = sorted(decoding.given().keys() - {*OPTIONAL} - self.features)
        if refused:
            raise ConfigError(
                f"The stage {stage!r} asks for {', '.join(refused)}, which the backend "
                f"{self.backend!r} does not take.",
                "Give it another model, or set filter.votes.",
            )
        left_out: dict[str, Any] = {name: None for name in OPTIONAL if name not in self.features}
        return replace(decoding, **left_out)

    def request(self, question: Question, decoding: Decoding, sample: int, seed: int) -> Request:
        """A question as this model is asked it.

        seed: of the build; the provider's seed is drawn from it where the backend takes one.
        """
        messages = (Message("user", question.text),)
        drawn = None
        if "seed" in self.features:
            drawn = provider_seed(seed, messages_hash(messages), sample)
        return Request(
            self.name, messages, decoding, sample, Origin(question.about, sample, 1), drawn
        )
