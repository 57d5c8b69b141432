"""Which of two answers is better? The run's, and another one to the same instance, in both orders.

Judges prefer an answer for where it stands (Zheng et al. 2023, "Judging LLM-as-a-Judge",
arXiv 2306.05685, section 3.3), so each pair is asked about twice, and only a preference that both
orders tell of is one; where they differ it is a tie, as there (section 3.4).

    judges:
      - {name: pairwise, against: my_baseline, model: {backend: openai, name: gpt-4o}}
      - {name: pairwise, against: gold, as: fluency, question: Which of the two is more fluent?,
         model: {backend: openai, name: gpt-4o}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.errors import ConfigError, Unparseable
from harness.ports import AnswersOf, OtherAnswers, Task
from harness.records import Decoding, Instance, Reply, Request, Score
from harness.scoring.judges._asking import Asking, Scope, by_question, samplings
from harness.scoring.judges._fence import TAG
from harness.scoring.judges._number import mean
from harness.scoring.judges.choice import LABEL, chosen_in

GOLD = "gold"
QUESTION = "Which of the two does better what was asked for?"
BETTER = {"A": 1.0, "B": 0.0, "tie": 0.5}
"""How far the first answer is the better one."""


class Pairwise:
    """Asks about an answer and another one to the same instance, twice: each stands first once.

    against: the name of the run that the other answers are from, of which each instance's
        first sample counts; or ``gold``: the task's own answers.
    question: what is asked of the two.
    prompt: the name of a template in prompts/judges, or a file; it is given first, second,
        question and asked.
    samples: how often each order is asked; the pairs are averaged.
    passes_from: the least preference that passes (0.5: not worse); without it the score gives no
        verdict.
    temperature, max_tokens: of a reply; one that was cut off tells no preference.
    where: only answers to instances of these groups are judged: label to group or groups.
    """

    def __init__(
        self,
        against: str,
        question: str = QUESTION,
        prompt: str = "pairwise",
        samples: int = 1,
        passes_from: float | None = None,
        temperature: float = 0.0,
        max_tokens: int = 1000,
        where: dict[str, str | list[str]] | None = None,
        *,
        task: Task[Any],
        model: str,
        answers: AnswersOf,
    ) -> None:
        if samples < 1 or max_tokens < 1 or temperature < 0:
            raise ConfigError("samples and max_tokens must be 1 or more, temperature 0 or more.")
        if passes_from is not None and not 0 <= passes_from <= 1:
            raise ConfigError("passes_from must be within 0 and 1.")
        self._against, self._question = against, question
        self._others: OtherAnswers = _Gold(task) if against == GOLD else answers(against)
        judged = ("first", "second")
        self._asking = Asking(prompt, {"question"}, task, judged, tells_prompt=True)
        self._samples, self._passes_from, self._model = samples, passes_from, model
        self._decoding = Decoding(temperature=temperature, max_tokens=max_tokens)
        self._scope = Scope(where or {})

    @property
    def verdicts(self) -> bool:
        """Only with a mark to pass."""
        return self._passes_from is not None

    def fingerprint(self) -> Mapping[str, str]:
        """What it asks with, and which answers it compares with."""
        return {"prompt_sha256": self._asking.sha256, **self._others.fingerprint()}

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """Both orders, each with a sample number of its own.

        None out of scope, where there is no other answer, and where both are the same text.
        """
        other = self._others.text(instance) if self._scope.has(instance) else None
        if other is None or other == text:
            return []
        found: list[Request] = []
        for first, second in ((text, other), (other, text)):
            messages = self._asking.of(
                instance, {"first": first, "second": second}, question=self._question
            )
            found += samplings(instance, self._model, messages, self._decoding, self._samples)
        return found

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """``preferred``: 1 where the answer is the better one, 0 where the other one is, 0.5 for a
        tie; ``consistent``: the share of pairs in which both orders say the same, where they were
        asked about.

        Raises: Unparseable where there is no other answer, or no pair of replies tells.
        """
        if not self._scope.has(instance):
            return {}
        other = self._others.text(instance)
        if other is None:
            raise Unparseable(f"There is no answer of {self._against!r} to compare with.")
        if not replies and text == other:
            return self._scores([0.5], [], {"same": True})  # nobody was asked in any order
        orders = by_question(replies, self._samples)
        if len(orders) != 2:
            raise Unparseable("The answer that is compared with is another one by now.")
        ours_first = [_preference(reply) for reply in orders[0]]
        theirs_first = [_preference(reply) for reply in orders[1]]
        preferred: list[float] = []
        consistent: list[float] = []
        for first, second in zip(ours_first, theirs_first, strict=True):
            if first is not None and second is not None:
                same = first == 1 - second
                consistent.append(float(same))
                preferred.append(first if same else 0.5)
        told = {"first": ours_first, "second": [_turned(one) for one in theirs_first]}
        return self._scores(preferred, consistent, told)

    def _scores(
        self, preferred: Sequence[float], consistent: Sequence[float], told: Mapping[str, Any]
    ) -> Mapping[str, Score]:
        value = mean(preferred)
        if value is None:
            raise Unparseable("No pair of replies ends in a preference: A, B or tie.")
        mark = self._passes_from
        passed = None if mark is None else value >= mark
        reason = f"Another answer is better: {self._question}" if passed is False else ""
        preference = {"preferred": Score(value, passed, reason, told)}
        agreed = mean(consistent)
        return preference if agreed is None else {**preference, "consistent": Score(agreed)}

    def warnings(self, instances: Iterable[Instance[Any]]) -> str:
        """How many instances have no other answer: of theirs no preference can be told."""
        judged = [self._others.has(one) for one in instances if self._scope.has(one)]
        lacking = judged.count(False)
        if not lacking:
            return ""
        return (
            f"{lacking:,} of {len(judged):,} instances have no answer of {self._against!r} to be "
            "compared with: nothing is asked of them, and they get no preference."
        )

    def simulated(self, request: Request) -> str:
        """Made up: the longer one."""
        judged = re.findall(rf"<{TAG}>\n(.*?)\n</{TAG}>", request.messages[-1].content, re.DOTALL)
        lengths = [len(one) for one in judged[:2]]
        better = "tie" if len(set(lengths)) < 2 else "AB"[lengths.index(max(lengths))]
        return f"{LABEL.title()}: {better}"


class _Gold:
    """The task's own answers."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task

    def has(self, instance: Instance[Any]) -> bool:
        return self.text(instance) is not None

    def text(self, instance: Instance[Any]) -> str | None:
        return self._task.reference(instance)

    def fingerprint(self) -> Mapping[str, str]:
        return {}  # the task's, which the run has


def _preference(reply: Reply) -> float | None:
    chosen = chosen_in(reply, BETTER)
    return None if chosen is None else BETTER[chosen]


def _turned(preference: float | None) -> float | None:
    """A preference of the first answer as one of the second."""
    return None if preference is None else 1 - preference


plugin = Pairwise
