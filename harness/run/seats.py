"""Who sits at a judgement: judges, each with its model's call stack, and panels of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from harness.calls.calls import Calls
from harness.errors import ConfigError, Unparseable
from harness.ports import Judge
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Call,
    Decoding,
    DecodingConstraint,
    Instance,
    Origin,
    Question,
    Reply,
    Request,
    Score,
)
from harness.store.judgements import Judgement, text_hash

Scores = Mapping[str, Score]

OPTIONAL = ("temperature", "max_tokens")
"""Of a judge's decoding, what is left out where its backend does not take it."""


@dataclass(frozen=True, slots=True)
class SeatedJudge:
    """A judge of a run, with all that it needs.

    name: in the run.
    calls: its model's call stack; model: the model's name; features: its backend's.
    cost: what a call has cost, None where that is not known.
    decides: its scores have a say in what passed.
    is_for: which instances it is put to; of the others it says nothing, which is written down.
    takes_text: its ``parse`` has a parameter ``text``, for the judged one.
    """

    name: str
    judge: Judge
    calls: Calls
    model: str
    features: Collection[str]
    cost: Callable[[Call], float | None]
    decides: bool = True
    is_for: Callable[[Instance[Any]], bool] = lambda _: True
    takes_text: bool = field(init=False)

    def __post_init__(self) -> None:
        takes = "text" in inspect.signature(self.judge.parse).parameters
        object.__setattr__(self, "takes_text", takes)

    def requests(self, instance: Instance[Any], attempt: Attempt, redraw: int = 0) -> list[Request]:
        """What it asks about an attempt; nothing where it is not for the instance.

        redraw: how often it was answered before: each time the calls are other ones.

        Raises: ConfigError for what its backend does not take.
        """
        if not self.is_for(instance):
            return []
        origin = Origin(attempt.instance, attempt.sample, attempt.round)
        return [
            Request(
                self.model,
                question.messages,
                self._taken(question),
                sample,
                origin,
                redraw=redraw,
            )
            for question in self.judge.questions(instance, attempt.text or "")
            for sample in range(question.samples)
        ]

    def parse(self, attempt: Attempt, instance: Instance[Any], replies: Sequence[Reply]) -> Scores:
        """What the replies about an attempt say. Raises: as the judge's ``parse``."""
        if not self.is_for(instance):
            return {}
        text = {"text": attempt.text or ""} if self.takes_text else {}
        return self.judge.parse(instance, replies, **text)

    def _taken(self, question: Question) -> Decoding:
        asked = question.decoding
        wanted = set(asked.given()) - {*OPTIONAL, "constraint"}
        if isinstance(asked.constraint, DecodingConstraint):
            wanted.add(asked.constraint.kind)
        if refused := sorted(wanted - set(self.features)):
            raise ConfigError(
                f"The judge {self.name!r} asks for {', '.join(refused)}, which the backend of its "
                "model does not take.",
                "Give it another model, or name its server with model.preset (docs/providers.md).",
            )
        left_out: dict[str, Any] = {name: None for name in OPTIONAL if name not in self.features}
        return replace(asked, **left_out)


class Combining(Protocol):
    """What makes one judgement of several (`harness.scoring.panel.Panel`)."""

    @property
    def of(self) -> tuple[str, ...]:
        """The names of the judges."""
        ...

    def combine(self, said: Mapping[str, Scores | None]) -> Scores:
        """Their scores as one's; None of one without a verdict.

        Raises: `harness.errors.Unparseable`.
        """
        ...


@dataclass(frozen=True, slots=True)
class SeatedPanel:
    """Judges of a run that decide together.

    name: of the panel in the run.
    decides: its scores have a say in what passed; those of its members then have none.
    """

    name: str
    panel: Combining
    decides: bool = True

    def judgement(self, attempt: Attempt, said: Mapping[str, Judgement]) -> Judgement | None:
        """What it says of an attempt; None where one of its judges has still to judge it.

        said: by judges of the run.
        """
        members = [said.get(name) for name in self.panel.of]
        there = [one for one in members if one is not None and one.outcome != "error"]
        if len(there) < len(members):
            return None
        scores: Scores = {}
        problem: str | None = None
        try:
            scores = self.panel.combine(
                {one.judge: _own(one) if one.outcome == "ok" else None for one in there}
            )
        except Unparseable as error:
            problem = str(error)
        return Judgement(
            v=SCHEMA_VERSION,
            judge=self.name,
            instance=attempt.instance,
            sample=attempt.sample,
            round=attempt.round,
            attempt=text_hash(attempt.text or ""),
            outcome="ok" if problem is None else "unparseable",
            started_at=min(one.started_at for one in there),
            ended_at=max(one.ended_at for one in there),
            scores={f"{self.name}.{name}": score for name, score in scores.items()},
            cost_usd=0.0,
            error=problem,
        )


def _own(judgement: Judgement) -> Scores:
    """A judge's scores by their names without its own."""
    return {name.partition(".")[2]: score for name, score in judgement.scores.items()}
