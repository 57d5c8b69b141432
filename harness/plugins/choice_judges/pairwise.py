"""Judges whether the run's answer or another answer is better, asking in both orders.

Judges tend to prefer one position (Zheng et al. 2023, "Judging LLM-as-a-Judge", arXiv 2306.05685,
section 3.3), so the model is asked about each pair twice. If the replies disagree, the result is a
tie (section 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.plugins.choice_judges.choice import LABEL, chosen_in
from harness.ports import AnswersOf, OtherAnswers, Task
from harness.records import Decoding, Instance, Question, Reply, Request, Score
from harness.scoring.judges import JudgePrompt, PromptJudge, fenced_texts, graded, mean

BETTER = {"A": 1.0, "B": 0.0, "tie": 0.5}
"""Maps a verdict to the first answer's value: 1 if better, 0 if worse, 0.5 for a tie."""


class Pairwise(PromptJudge):
    """Asks which of two answers to an instance is better, once in each order.

    Args:
        against: The run with the other answers (the first sample of each instance), or ``gold``
            for the task's reference answers.
        question: The question about the two answers.
        prompt: Name of a built-in template, or a file. Fields: first, second, question, asked.
        samples: How often the model is asked in each order. The results are averaged.
        passes_from: Lowest preference that passes (0.5: not worse), or None for no verdict.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens of a reply. A truncated reply expresses no preference.
        where: Judge only instances in these groups: maps a label to a group or a list of groups.
    """

    def __init__(
        self,
        against: str,
        question: str = "Which of the two does better what was asked for?",
        prompt: str = "pairwise",
        samples: int = 1,
        passes_from: float | None = None,
        temperature: float = 0.0,
        max_tokens: int = 1000,
        where: dict[str, str | list[str]] | None = None,
        *,
        task: Task[Any],
        answers: AnswersOf,
    ) -> None:
        if passes_from is not None and not 0 <= passes_from <= 1:
            raise ConfigError("passes_from must be between 0 and 1.")
        template = JudgePrompt(prompt, {"question"}, task, ("first", "second"), show_prompt=True)
        super().__init__(template, Decoding(temperature, max_tokens), samples, where)
        self._against, self._question, self._passes_from = against, question, passes_from
        self.verdicts = passes_from is not None
        self._others: OtherAnswers = _References(task) if against == "gold" else answers(against)

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes of the prompt and of any other run's answers, by name."""
        return {**super().fingerprint(), **self._others.fingerprint()}

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return a question for each order.

        There are none if the instance is skipped, or if the other answer is missing or equal.
        """
        other = self._others.text(instance) if self.judges(instance) else None
        if other is None or other == text:
            return []
        return [
            self.question(instance, {"first": first, "second": second}, question=self._question)
            for first, second in ((text, other), (other, text))
        ]

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """Return ``preferred``: 1 if the run's answer is better, 0 if worse, 0.5 for a tie.

        ``text`` is the run's answer. Unless the two answers are equal, ``preferred`` is the mean
        over the samples with a verdict in both orders, and ``consistent`` is the share of these
        samples whose two verdicts agree. Return {} if the instance is skipped.

        Raises:
            Unparseable: If no sample has a verdict in both orders, or if the other answer is
                missing or has changed since the questions were asked.
        """
        if not self.judges(instance):
            return {}
        other = self._others.text(instance)
        if other is None:
            raise Unparseable(f"There is no answer of {self._against!r} to compare with.")
        if not replies and text == other:
            return {"preferred": self._preferred(0.5, {"same": True})}  # there were no questions
        orders = self.by_question(replies)
        if len(orders) != 2:
            raise Unparseable("The answer that this one was compared with has changed since.")
        first, second = (
            [BETTER.get(chosen_in(reply, BETTER) or "") for reply in order] for order in orders
        )
        second = [None if one is None else 1 - one for one in second]
        pairs = [pair for pair in zip(first, second, strict=True) if None not in pair]
        preferred = [one if one == other else 0.5 for one, other in pairs]
        consistent = [float(one == other) for one, other in pairs]
        value, agreed = mean(preferred), mean(consistent)
        if value is None:
            raise Unparseable("No pair of replies ends in a preference: A, B or tie.")
        details = {"first": first, "second": second}
        return {
            "preferred": self._preferred(value, details),
            "consistent": Score(agreed, share=True),
        }

    def _preferred(self, value: float, details: Mapping[str, Any]) -> Score:
        reason = f"Another answer is better: {self._question}"
        return graded(value, self._passes_from, reason, details, share=True)

    @override
    def warnings(self, instances: Iterable[Instance[Any]]) -> str:
        """Return a warning if some instances have no answer to compare with, otherwise ""."""
        judged = [self._others.has(one) for one in instances if self.judges(one)]
        lost = f"{judged.count(False):,} of {len(judged):,} instances have no answer of "
        lost += f"{self._against!r} to compare with: they are not judged and get no preference."
        return lost if False in judged else ""

    @override
    def simulated(self, request: Request) -> str:
        """Return a verdict for the longer answer, or a tie if their lengths are equal."""
        lengths = [len(one) for one in fenced_texts(request.messages[-1].content)[:2]]
        better = "tie" if len(set(lengths)) < 2 else "AB"[lengths.index(max(lengths))]
        return f"{LABEL.title()}: {better}"


@dataclass(frozen=True)
class _References:
    task: Task[Any]

    def has(self, instance: Instance[Any]) -> bool:
        return self.text(instance) is not None

    def text(self, instance: Instance[Any]) -> str | None:
        return self.task.reference(instance)

    def fingerprint(self) -> Mapping[str, str]:
        return {}  # the run's manifest has the task's
