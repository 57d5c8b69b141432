"""Models for the stages of a build: functions of the prompt, that count."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.builders.wildifeval.asking import Asking
from harness.builders.wildifeval.stage_model import StageModel
from harness.calls.calls import FreeCalls
from harness.calls.signals import Stop
from harness.config.curation import StageName
from harness.config.prices import Price
from harness.records import Reply, Request, Usage
from harness.run.tally import Tally

STAGES: tuple[StageName, ...] = ("toxicity", "filter", "decompose", "categories", "domains")
FEATURES = frozenset({"temperature", "max_tokens", "seed"})


class Model:
    """Answers with a function of the prompt's text."""

    def __init__(
        self,
        answer: Callable[[str], str | Reply | Exception],
        features: frozenset[str] = FEATURES,
        name: str = "m",
    ) -> None:
        self.answer = answer
        self.features = features
        self.name = name
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Reply:
        self.requests.append(request)
        said = self.answer(request.messages[-1].content)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Reply) else Reply(said, "stop", Usage(10, 2))

    def for_stages(self, price: Price | None = None) -> dict[str, StageModel]:
        calls = FreeCalls(self.generate, backend="b", endpoint="e", by_instance=False)
        model = StageModel(
            calls, "b", "e", self.name, self.features, lambda _: 0.5, price, workers=4
        )
        return dict.fromkeys(STAGES, model)


@contextlib.contextmanager
def unwatched(stage: str, tally: Tally) -> Iterator[None]:
    yield


def asking(folder: Path, model: Model, stop: Stop | None = None, seed: int = 0) -> Asking:
    return Asking(folder, model.for_stages(), seed=seed, stop=stop or Stop(), watch=unwatched)
