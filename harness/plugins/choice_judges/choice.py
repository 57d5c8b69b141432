"""Judges whose replies name a choice: by a rubric, or between two answers.

A rubric has questions with named choices that have numeric values. Each question is a separate
call. The model may reason first; its last line names the choice.

The pairwise judge decides whether the run's answer or another answer is better, asking in both
orders. Judges tend to prefer one position (Zheng et al. 2023, "Judging LLM-as-a-Judge", arXiv
2306.05685, section 3.3), so the model is asked about each pair twice. If the replies disagree, the
result is a tie (section 3.4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.ports import AnswersOf, OtherAnswers, Task
from harness.records import MAX_MAGNITUDE, Decoding, Instance, Question, Reply, Request, Score
from harness.scoring.conclusions import CROSSES, is_quoted, is_sample, statements, strip_markup
from harness.scoring.judges import (
    QUOTATION_INTRODUCTION,
    TAG,
    JudgePrompt,
    PromptJudge,
    find_fenced_texts,
    mean_of_decided,
    threshold_score,
    without_quotations,
)

LABEL = "verdict"  # label that may precede the choice in the last line
LONGEST_LINE = 500  # maximum characters of a last line that can name a choice
_NOT_JUDGES = re.compile(
    rf"{QUOTATION_INTRODUCTION}|(?:\w['\u2019]s|s['\u2019]|\b(?:its|their|his|her|your))\s+(?:\w+\s+)?"
    r"(?:answer|option|choice|response|solution|verdict|conclusion|decision)\b[^.!?]{0,40}\Z"
    r"|\b(?:answer|response|solution|choice|verdict)\s+(?:of|given|from|by|in(?!\s+(?:this|my|short|summary|conclusion)\b))\b[^.!?]{0,60}\Z"
    r"|\b(?:first|expected|reference|gold|given|target|ideal|sample|stated)\s+(?:\w+\s+)?(?:answer|response|solution|choice|verdict)\b"
    r"[^.!?]{0,40}\Z|\b(?:answer|verdict|choice)\s+(?:would|could|might)\s+be\b[^.!?]{0,20}\Z",
    re.IGNORECASE,
)
"""Matches, before a statement, that it is the judged model's: "its answer is"."""
_DENYING = frozenset(CROSSES + "¬≠")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class RubricItem:
    """A rubric's question, the values of its choices, and the lowest mean that passes."""

    question: str
    choices: dict[str, float]
    passes_from: float | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    def __post_init__(self) -> None:
        folded = {_folded(choice) for choice in self.choices}
        if len(folded) < max(2, len(self.choices)) or "" in folded:
            raise ValueError("choices must be two or more, different even without case and signs")
        if not all(abs(value) <= MAX_MAGNITUDE for value in self.choices.values()):
            raise ValueError(
                f"the values of choices must be from {-MAX_MAGNITUDE:g} to {MAX_MAGNITUDE:g}"
            )

    def score(self, replies: Sequence[Reply]) -> Score:
        """Return the mean value of the choices that replies name (None if they name none)."""
        chosen = [chosen_in(reply, self.choices) for reply in replies]
        value = mean_of_decided([None if name is None else self.choices[name] for name in chosen])
        details = {"choices": chosen}
        if value is None:
            return Score(None, None, "No reply names one of the choices in its last line.", details)
        names = ", ".join(dict.fromkeys(filter(None, chosen)))
        share = all(0 <= number <= 1 for number in self.choices.values())
        return threshold_score(
            value, self.passes_from, f"{self.question} {names}", details, share=share
        )


class Choice(PromptJudge):
    """Scores an answer by the questions of a rubric.

    Args:
        criteria: The questions by name. Scores have the same names.
        prompt: Name of a built-in template, or a file. Fields: text, question, choices, asked.
        samples: How often each question is asked. The values are averaged.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens of a reply. A truncated reply names no choice.
        where: Judge only instances in these groups: maps a label to a group or a list of groups.
    """

    def __init__(
        self,
        criteria: dict[str, RubricItem],
        prompt: str = "choice",
        samples: int = 1,
        temperature: float = 0.0,
        max_tokens: int = 1000,
        where: dict[str, str | list[str]] | None = None,
        *,
        task: Task[Any],
    ) -> None:
        if not criteria:
            raise ConfigError("criteria must have at least one question.")
        for name in criteria:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                problem = f"criteria: {name!r} cannot name a score."
                raise ConfigError(problem, "Use letters, digits, '_' and '-'.")
        template = JudgePrompt(prompt, {"question", "choices"}, task)
        super().__init__(template, Decoding(temperature, max_tokens), samples, where)
        self._criteria = dict(criteria)
        self.verdicts = any(item.passes_from is not None for item in criteria.values())

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return the rubric's questions about the answer, or none if the instance is skipped."""
        if not self.judges(instance):
            return []
        return [
            self.question(instance, text, question=item.question, choices=list(item.choices))
            for item in self._criteria.values()
        ]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return one score per question by name, or none if the instance is skipped.

        Raises:
            Unparseable: If no reply to any question names a choice.
        """
        if not self.judges(instance):
            return {}
        pairs = zip(self._criteria.items(), self.group_by_question(replies), strict=True)
        scores = {name: item.score(item_replies) for (name, item), item_replies in pairs}
        if all(score.value is None for score in scores.values()):
            raise Unparseable("No reply names one of the choices in its last line.")
        return scores

    @override
    def simulated(self, request: Request) -> str:
        """Return a reply that names the question's choice with the highest value."""
        prompt = request.messages[-1].content
        around = prompt.partition(f"<{TAG}>\n")[0] + prompt.rpartition(f"\n</{TAG}>")[2]
        best = ""
        for item in self._criteria.values():
            if item.question in around:
                best = max(item.choices, key=item.choices.__getitem__)
                break
        return f"{LABEL.title()}: {best}"


def chosen_in(reply: Reply, choices: Mapping[str, float]) -> str | None:
    """Return the choice that a reply's last line names, or None.

    The line is the choice, announces it ("The answer is yes."), or ends in a sentence that is the
    choice. If it names two, there is none. Lines that the reply quotes do not count.
    """
    text = without_quotations(reply.text).strip(" \t\r\n\u2026")
    lines = text.splitlines()
    if reply.is_truncated or not lines or len(lines[-1]) > LONGEST_LINE:
        return None
    start = len(text) - len(lines[-1])
    if is_quoted(text, start) or is_sample(text, start):
        return None
    line = _folded(lines[-1])
    names = {_folded(choice): choice for choice in choices}
    choice = names.get(line) or names.get(line.removeprefix(f"{LABEL} "))
    unmarked = strip_markup(lines[-1])
    if unmarked.endswith("?") or not _DENYING.isdisjoint(unmarked):
        return None
    return choice or _announced(unmarked, choices)


def _announced(line: str, choices: Collection[str]) -> str | None:
    """Return the choice that a `plain` line announces, or that is its last sentence."""
    names = {_folded(strip_markup(choice)): choice for choice in choices}
    announced = [statement for statement in statements(line) if statement.named]
    sentences = _SENTENCE_END.split(line)
    stated = [_folded(statement.text) for statement in announced]
    stated += [name for name in map(_folded, sentences) if name in names]
    if len(set(stated)) != 1 or stated[0] not in names:
        return None
    choice = names[stated[0]]
    if _folded(sentences[-1]) in names:
        answers_question = len(sentences) > 1 and sentences[-2].endswith("?")
        return None if answers_question else choice
    if not announced:
        return None
    start = announced[-1].start
    if _folded(line[start:]) not in names or _NOT_JUDGES.search(line[:start]):
        return None
    return choice


def _folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


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
        self._against = against
        self._question = question
        self._passes_from = passes_from
        self.verdicts = passes_from is not None
        self._others: OtherAnswers = _References(task) if against == "gold" else answers(against)

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes of the prompt and of any other run's answers, by name."""
        return {**super().fingerprint(), **self._others.fingerprint()}

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return a question for each order.

        There are none if the instance is skipped, or if the other answer is missing or equal.
        """
        baseline = self._others.text(instance) if self.judges(instance) else None
        if baseline is None or baseline == text:
            return []
        return [
            self.question(instance, {"first": first, "second": second}, question=self._question)
            for first, second in ((text, baseline), (baseline, text))
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
        baseline = self._others.text(instance)
        if baseline is None:
            raise Unparseable(f"There is no answer of {self._against!r} to compare with.")
        if not replies and text == baseline:
            return {"preferred": self._preferred(0.5, {"same": True})}  # there were no questions
        orders = self.group_by_question(replies)
        if len(orders) != 2:
            raise Unparseable("The answer that this one was compared with has changed since.")
        first, second = (
            [BETTER.get(chosen_in(reply, BETTER) or "") for reply in order] for order in orders
        )
        second = [None if preference is None else 1 - preference for preference in second]
        pairs = [pair for pair in zip(first, second, strict=True) if None not in pair]
        preferred = [in_first if in_first == in_second else 0.5 for in_first, in_second in pairs]
        consistent = [float(in_first == in_second) for in_first, in_second in pairs]
        value = mean_of_decided(preferred)
        agreed = mean_of_decided(consistent)
        if value is None:
            raise Unparseable("No pair of replies ends in a preference: A, B or tie.")
        details = {"first": first, "second": second}
        return {
            "preferred": self._preferred(value, details),
            "consistent": Score(agreed, share=True),
        }

    def _preferred(self, value: float, details: Mapping[str, Any]) -> Score:
        reason = f"Another answer is better: {self._question}"
        return threshold_score(value, self._passes_from, reason, details, share=True)

    @override
    def warnings(self, instances: Iterable[Instance[Any]]) -> str:
        """Return a warning if some instances have no answer to compare with, otherwise ""."""
        judged = [self._others.has(instance) for instance in instances if self.judges(instance)]
        lost = f"{judged.count(False):,} of {len(judged):,} instances have no answer of "
        lost += f"{self._against!r} to compare with: they are not judged and get no preference."
        return lost if False in judged else ""

    @override
    def simulated(self, request: Request) -> str:
        """Return a verdict for the longer answer, or a tie if their lengths are equal."""
        lengths = [len(answer) for answer in find_fenced_texts(request.messages[-1].content)[:2]]
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
