"""Judges an answer by a rubric: questions with named choices that have numeric values.

Each question is a separate call. The model may reason first; its last line names the choice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.ports import Task
from harness.records import LARGEST, Decoding, Instance, Question, Reply, Request, Score
from harness.scoring.conclusions import CROSSES, is_quoted, plain, statements
from harness.scoring.judges import (
    INTRODUCTION,
    TAG,
    JudgePrompt,
    PromptJudge,
    graded,
    mean,
    own_text,
)

LABEL = "verdict"  # label that may precede the choice in the last line
LONGEST_LINE = 500  # maximum characters of a last line that can name a choice
_NOT_JUDGES = re.compile(
    rf"{INTRODUCTION}|(?:\w['\u2019]s|s['\u2019]|\b(?:its|their|his|her|your))\s+(?:\w+\s+)?"
    r"(?:answer|option|choice|response|solution|verdict|conclusion|decision)\b[^.!?]{0,40}\Z"
    r"|\b(?:answer|response|solution|choice)\s+of\b[^.!?]{0,60}\Z",
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
        if not all(abs(value) <= LARGEST for value in self.choices.values()):
            raise ValueError(f"the values of choices must be from {-LARGEST:g} to {LARGEST:g}")

    def score(self, replies: Sequence[Reply]) -> Score:
        """Return the mean value of the choices that replies name (None if they name none)."""
        chosen = [chosen_in(reply, self.choices) for reply in replies]
        value = mean([None if one is None else self.choices[one] for one in chosen])
        details = {"choices": chosen}
        if value is None:
            return Score(None, None, "No reply names one of the choices in its last line.", details)
        names = ", ".join(dict.fromkeys(filter(None, chosen)))
        share = all(0 <= number <= 1 for number in self.choices.values())
        return graded(value, self.passes_from, f"{self.question} {names}", details, share=share)


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
        self.verdicts = any(one.passes_from is not None for one in criteria.values())

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return the rubric's questions about the answer, or none if the instance is skipped."""
        if not self.judges(instance):
            return []
        return [
            self.question(instance, text, question=one.question, choices=list(one.choices))
            for one in self._criteria.values()
        ]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return one score per question by name, or none if the instance is skipped.

        Raises:
            Unparseable: If no reply to any question names a choice.
        """
        if not self.judges(instance):
            return {}
        pairs = zip(self._criteria.items(), self.by_question(replies), strict=True)
        scores = {name: item.score(own) for (name, item), own in pairs}
        if all(score.value is None for score in scores.values()):
            raise Unparseable("No reply names one of the choices in its last line.")
        return scores

    @override
    def simulated(self, request: Request) -> str:
        """Return a reply that names the question's choice with the highest value."""
        shown = request.messages[-1].content
        around = shown.partition(f"<{TAG}>\n")[0] + shown.rpartition(f"\n</{TAG}>")[2]
        asked = (one.choices for one in self._criteria.values() if one.question in around)
        best = next((max(choices, key=choices.__getitem__) for choices in asked), "")
        return f"{LABEL.title()}: {best}"


def chosen_in(reply: Reply, choices: Mapping[str, float]) -> str | None:
    """Return the choice that a reply's last line names, or None.

    The line is the choice, announces it ("The answer is yes."), or ends in a sentence that is the
    choice. If it names two, there is none. Lines that the reply quotes do not count.
    """
    text = own_text(reply.text).strip(" \t\r\n\u2026")
    lines = text.splitlines()
    if reply.is_truncated or not lines or len(lines[-1]) > LONGEST_LINE:
        return None
    if is_quoted(text, len(text) - len(lines[-1])):
        return None
    line = _folded(lines[-1])
    names = {_folded(choice): choice for choice in choices}
    choice = names.get(line) or names.get(line.removeprefix(f"{LABEL} "))
    unmarked = plain(lines[-1])
    if unmarked.endswith("?") or not _DENYING.isdisjoint(unmarked):
        return None
    return choice or _announced(unmarked, choices)


def _announced(line: str, choices: Collection[str]) -> str | None:
    """Return the choice that a `plain` line announces, or that is its last sentence."""
    names = {_folded(plain(choice)): choice for choice in choices}
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
