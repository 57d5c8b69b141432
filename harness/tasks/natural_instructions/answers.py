"""Scores an answer: ROUGE-L of the whole and of its first line, correctness, and kinds of failure.

The benchmark's measure is ROUGE-L, a number without a verdict. The verdict is `exact_match` of the
part of the answer that the truncation leaves: strict for generated questions, and the right measure
for labels. The failures follow the error analysis of Mishra et al. 2022. Each is a score without a
verdict, so that its mean is the share of answers that fail in that way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import ConfigError
from harness.ports import Metric
from harness.records import Score
from harness.scoring.overlap import (
    bare,
    before_stop,
    covered,
    exact_match,
    first_line,
    named_label,
    rouge_l,
    token_f1,
)
from harness.tasks.natural_instructions.loading import TEXT_FIELDS

Truncation = Literal["none", "first_line", "stop"]

LONGEST_REFERENCE = 60
"""Characters of a reference that a reason quotes."""
COPIED = 0.9
"""An answer is a copy if at least this share of its words are the input's, in order."""
SHORTEST_COPY = 4
"""Words; a shorter answer may well consist of words of the input."""

_FIELDS = "|".join([*map(re.escape, TEXT_FIELDS), "input", "output", r"(?:posi|nega)tive example"])
_NEXT = re.compile(rf"^[ \t]*(?:{_FIELDS})\d*[ \t]*[:-]", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measures:
    """The scores of an answer.

    Args:
        truncation: The part that counts as the answer for `exact_match`, `token_f1`, `accuracy` and
            metrics.
        stops: Where the answer ends, for the truncation ``stop``.
        metrics: Further metrics by name.
    """

    truncation: Truncation
    stops: Sequence[str] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.truncation == "stop") != bool(self.stops):
            raise ConfigError(
                "task.stop and task.truncation: stop go together.",
                "Set both the truncation and the sequences at which an answer ends.",
            )
        if not all(self.stops):
            raise ConfigError("A stop sequence of task.stop is empty.", "Remove it.")

    def answer(self, text: str) -> str:
        """Return the part of a text that counts as the answer."""
        if self.truncation == "first_line":
            return first_line(text)
        return before_stop(text, self.stops) if self.stops else text

    def right(self, outputs: Sequence[str], text: str) -> bool:
        """Return whether the answer is one of the references."""
        return exact_match(self.answer(text), outputs)

    def scores(
        self, outputs: Sequence[str], text: str, labels: Collection[str] = (), source: str = ""
    ) -> dict[str, Score]:
        """Return the scores of a text by name.

        The bare labels of a classification add `accuracy`, which ignores text after a label.
        """
        answer = self.answer(text)
        found = {
            "rouge_l": Score(rouge_l(text, outputs)),
            "rouge_l_first_line": Score(rouge_l(first_line(text), outputs)),
        }
        if self.stops:
            found["rouge_l_stop"] = Score(rouge_l(answer, outputs))
        right = self.right(outputs, text)
        found["exact_match"] = Score(right, right, "" if right else f"not {_quoted(outputs[0])}")
        found["token_f1"] = Score(token_f1(answer, outputs))
        if labels:
            label = named_label(answer, labels)
            right = label is not None and exact_match(label, outputs)
            found["accuracy"] = Score(right, reason="" if label is not None else "names no label")
            found["no_label"] = Score(label is None)
        for name, metric in self.metrics.items():
            found[name] = Score(metric.score(answer, outputs))
        ways = failures(text, outputs, source)
        return found | {name: Score(failed) for name, failed in ways.items()}


def failures(text: str, references: Sequence[str], source: str) -> dict[str, bool]:
    """Find in which ways a whole answer fails; a right one fails in none.

    ``redundant``: it begins with a right answer, and more follows. ``goes_on``: it begins another
    field or instance of the prompt. ``copies_input``: nearly all of its first line repeats the
    input (the source), and no right answer does.
    """
    wrong = not exact_match(text, references)
    return {
        "redundant": wrong and _begins_right(text, references),
        "goes_on": wrong and _NEXT.search(text) is not None,
        "copies_input": wrong
        and _is_copy(first_line(text), source)
        and not any(_is_copy(reference, source) for reference in references),
    }


def _begins_right(text: str, references: Sequence[str]) -> bool:
    text = text.strip().lower()
    for reference in map(bare, references):
        rest = text[len(reference) :]
        if reference and text.startswith(reference) and not rest[:1].isalnum():
            return bool(re.search(r"\w", rest))
    return False


def _is_copy(text: str, source: str) -> bool:
    words, common = covered(text, source)
    return words >= SHORTEST_COPY and common >= COPIED * words


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST_REFERENCE else f"{text[: LONGEST_REFERENCE - 1]}…")
