"""Judges and panels, bound to their models: what can be asked about an attempt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import Unparseable
from harness.ports import Judge
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Instance,
    Origin,
    Outcome,
    Reply,
    Request,
    Score,
)
from harness.run.session import BoundModel
from harness.scoring.panel import Panel
from harness.store.judgements import Judgement, text_hash

Scores = Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class BoundJudge:
    """A judge of a run with its model.

    Attributes:
        name: The judge's name in the run.
        decides: Whether its scores count towards what passed.
        judges: Tells whether it judges an instance. For the others, having no scores is recorded.
        takes_text: Whether its ``parse`` has a parameter ``text``, for the judged text.
    """

    name: str
    judge: Judge
    model: BoundModel
    decides: bool = True
    judges: Callable[[Instance[Any]], bool] = lambda _: True
    takes_text: bool = field(init=False)

    def __post_init__(self) -> None:
        takes = "text" in inspect.signature(self.judge.parse).parameters
        object.__setattr__(self, "takes_text", takes)

    def requests(self, instance: Instance[Any], attempt: Attempt, redraw: int = 0) -> list[Request]:
        """Return its requests about an attempt; none if it does not judge the instance.

        Args:
            instance: The instance that was answered.
            attempt: The answer.
            redraw: How often the judge has answered before: each time makes different calls.

        Raises:
            ConfigError: It asks for something that its backend does not support.
        """
        if not self.judges(instance):
            return []
        origin = Origin(attempt.instance, attempt.sample, attempt.round)
        remedy = "Give it another model, or set model.preset to its server (docs/providers.md)."
        requests = []
        for question in self.judge.questions(instance, attempt.text or ""):
            asker = f"The judge {self.name!r}"
            decoding = self.model.model.supported(question.decoding, asker, remedy)
            requests += [
                Request(self.model.name, question.messages, decoding, sample, origin, redraw=redraw)
                for sample in range(question.samples)
            ]
        return requests

    def parse(self, instance: Instance[Any], attempt: Attempt, replies: Sequence[Reply]) -> Scores:
        """Parse the replies about an attempt.

        Raises:
            Unparseable: They hold no verdict.
        """
        if not self.judges(instance):
            return {}
        text = {"text": attempt.text or ""} if self.takes_text else {}
        return self.judge.parse(instance, replies, **text)


@dataclass(frozen=True, slots=True)
class BoundPanel:
    """Judges of a run that decide together; its members' own scores then decide nothing."""

    name: str
    panel: Panel
    decides: bool = True

    def judgement(self, attempt: Attempt, said: Mapping[str, Judgement]) -> Judgement | None:
        """Return the panel's judgement of an attempt, or None if a member has not judged it yet.

        Args:
            attempt: The judged attempt.
            said: Judgements by the judges' names.
        """
        found = [said.get(name) for name in self.panel.of]
        members = [one for one in found if one is not None and one.outcome != "error"]
        if len(members) < len(found):
            return None
        scores: Scores = {}
        problem: str | None = None
        try:
            scores = self.panel.combine(
                {one.judge: _own_scores(one) if one.outcome == "ok" else None for one in members}
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
            started_at=min(one.started_at for one in members),
            ended_at=max(one.ended_at for one in members),
            scores={f"{self.name}.{name}": score for name, score in scores.items()},
            cost_usd=0.0,
            error=problem,
        )


@dataclass(frozen=True, slots=True)
class BoundJudges:
    """All judges and panels of a run.

    Attributes:
        outcomes: Outcomes of the attempts that they judge.
    """

    judges: Sequence[BoundJudge]
    outcomes: Collection[Outcome]
    panels: Sequence[BoundPanel] = ()

    @property
    def names(self) -> list[str]:
        """Return the names of judges, then panels."""
        return [*(one.name for one in self.judges), *(one.name for one in self.panels)]

    @property
    def deciding(self) -> list[str]:
        """Return the names of those that decide, with the rules, what passed."""
        judges = [one.name for one in self.judges if one.decides]
        return [*judges, *(one.name for one in self.panels if one.decides)]


def _own_scores(judgement: Judgement) -> Scores:
    """Return a judge's scores by name, without the judge's prefix."""
    return {name.partition(".")[2]: score for name, score in judgement.scores.items()}
