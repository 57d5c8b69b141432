"""A rubric: questions about an answer, each with named choices that are worth numbers.

Each question is put before the model by itself, which may think aloud and names its choice in
the last line.

    judges:
      - name: choice
        model: {backend: openai, name: gpt-4}
        criteria:
          helpful: {question: Does it help?, choices: {not at all: 0, partly: 0.5, fully: 1}}
          polite: {question: Is it polite?, choices: {rude: 0, polite: 1}, passes_from: 1}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import ConfigError, Unparseable
from harness.ports import Task
from harness.records import Decoding, Instance, Reply, Request, Score
from harness.scoring.judges._asking import Asking, Scope, by_question, samplings
from harness.scoring.judges._fence import TAG
from harness.scoring.judges._number import mean

LABEL = "verdict"
"""What stands before the choice in the last line."""

LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a rubric.

    choices: name to number, two or more.
    passes_from: the least number that passes; without it the question gives no verdict.
    """

    question: str
    choices: dict[str, float]
    passes_from: float | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    def __post_init__(self) -> None:
        folded = {_folded(choice) for choice in self.choices}
        if len(folded) < max(2, len(self.choices)) or "" in folded:
            raise ValueError("choices are two or more, and differ by more than case and signs")


class Choice:
    """Asks the questions of a rubric, each by itself.

    criteria: the questions by their names, which name the scores too.
    prompt: the name of a template in prompts/judges, or a file; it is given text, question,
        choices, and asked where the task says what the model was asked.
    samples: how often each is asked; what is read is averaged.
    temperature, max_tokens: of a reply; one that was cut off names no choice.
    where: only answers to instances of these groups are judged: label to group or groups.
    """

    def __init__(
        self,
        criteria: dict[str, Question],
        prompt: str = "choice",
        samples: int = 1,
        temperature: float = 0.0,
        max_tokens: int = 1000,
        where: dict[str, str | list[str]] | None = None,
        *,
        task: Task[Any],
        model: str,
    ) -> None:
        for name in criteria:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ConfigError(
                    f"criteria: {name!r} cannot name a score.", "Use letters, digits, '_' and '-'."
                )
        if not criteria:
            raise ConfigError("criteria must have a question.")
        if samples < 1 or max_tokens < 1 or temperature < 0:
            raise ConfigError("samples and max_tokens must be 1 or more, temperature 0 or more.")
        self._asking = Asking(prompt, {"question", "choices"}, task)
        self._criteria, self._samples, self._model = dict(criteria), samples, model
        self._decoding = Decoding(temperature=temperature, max_tokens=max_tokens)
        self._scope = Scope(where or {})

    @property
    def verdicts(self) -> bool:
        """Where a question has a mark to pass."""
        return any(one.passes_from is not None for one in self._criteria.values())

    def fingerprint(self) -> Mapping[str, str]:
        """What it asks with."""
        return {"prompt_sha256": self._asking.sha256}

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """Those of each question, each with a sample number of its own; none out of scope."""
        if not self._scope.has(instance):
            return []
        found: list[Request] = []
        for one in self._criteria.values():
            messages = self._asking.about(
                instance, text, question=one.question, choices=list(one.choices)
            )
            found += samplings(instance, self._model, messages, self._decoding, self._samples)
        return found

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """A score for each question, by its name.

        Raises: Unparseable where no reply names a choice.
        """
        if not self._scope.has(instance):
            return {}
        each = by_question(replies, self._samples)
        scores = {
            name: _scored(question, several)
            for (name, question), several in zip(self._criteria.items(), each, strict=True)
        }
        if all(score.value is None for score in scores.values()):
            raise Unparseable("No reply names one of the choices in its last line.")
        return scores

    def simulated(self, request: Request) -> str:
        """The choice that is worth most."""
        said = request.messages[-1].content
        asked = said.partition(f"<{TAG}>\n")[0] + said.rpartition(f"\n</{TAG}>")[2]
        best = [
            max(one.choices, key=one.choices.__getitem__)
            for one in self._criteria.values()
            if one.question in asked
        ]
        return f"{LABEL.title()}: {best[0] if best else ''}"


def _scored(question: Question, replies: Sequence[Reply]) -> Score:
    chosen = [chosen_in(reply, question.choices) for reply in replies]
    value = mean([None if one is None else question.choices[one] for one in chosen])
    details = {"choices": chosen}
    if value is None:
        return Score(None, None, "No reply names one of the choices in its last line.", details)
    mark = question.passes_from
    passed = None if mark is None else value >= mark
    reason = ""
    if passed is False:
        named = ", ".join(dict.fromkeys(one for one in chosen if one is not None))
        reason = f"{question.question} {named}"
    return Score(value, passed, reason, details)


def chosen_in(reply: Reply, choices: Mapping[str, float]) -> str | None:
    """The choice that a reply's last line names, and nothing else; None where there is none."""
    lines = reply.text.strip().splitlines()
    if reply.finish_reason == "length" or not lines or len(lines[-1]) > LONGEST_LINE:
        return None
    said = _folded(lines[-1])
    names = {_folded(choice): choice for choice in choices}
    return names.get(said) or names.get(said.removeprefix(f"{LABEL} "))


def _folded(text: str) -> str:
    """A text by its words alone."""
    return " ".join(re.findall(r"\w+", text.casefold()))


plugin = Choice
