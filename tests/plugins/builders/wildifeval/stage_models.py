"""Models for the stages of a build: functions of the prompt, that count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.calls.rate_limits import RateLimits
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Notices, Stop
from harness.config.prices import Price
from harness.config.sections import LimitsSection, ModelSection
from harness.engine import models
from harness.engine.session import Session
from harness.plugin import Backend
from harness.plugins.builders.wildifeval.asking import StageCalls, StageQuestion
from harness.plugins.builders.wildifeval.curation_file import StageName
from harness.records import Reply, Request, Usage

STAGES: tuple[StageName, ...] = ("toxicity", "filter", "decompose", "categories", "domains")
FEATURES = frozenset({"temperature", "max_tokens", "seed"})


def question(about: str, text: str) -> StageQuestion:
    return about, lambda: text


class Model(Backend):
    """Answers with a function of the prompt's text."""

    endpoint = "e"
    cacheable = True

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

    async def aclose(self) -> None:
        pass


class Asking(StageCalls):
    """The stages of a build whose replies are cached in a folder."""

    def __init__(self, folder: Path, model: Model, stop: Stop, seed: int) -> None:
        self.folder = folder
        section = ModelSection(backend="b", name=model.name)
        limits = LimitsSection(concurrency=1, attempts=1)  # four workers
        price = Price(input=50_000, output=0)
        stage_model = models.Model(section, model, limits, RateLimits({}), price)
        self.stop = stop
        self.stages = dict.fromkeys(STAGES, stage_model)
        super().__init__(self.stages, Session("build", stop, Notices()), seed)

    async def ask(self, *question: Any, **more: Any) -> Any:
        with ReplyCache(self.folder / "replies.sqlite") as replies:
            self.session = Session("build", self.stop, Notices(), replies)
            return await super().ask(*question, **more)


def asking(folder: Path, model: Model, stop: Stop | None = None, seed: int = 0) -> Asking:
    return Asking(folder, model, stop or Stop(), seed)
