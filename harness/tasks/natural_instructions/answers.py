"""What is said of an answer: ROUGE-L of all of it and of its first line, and whether it is right.

The benchmark's measure is ROUGE-L, a number without a verdict. The verdict is `exact_match`, of the
part of the answer that the truncation leaves: strict for a question that is to be written, and the
right measure for a label.

>>> Measures("first_line").scores(["yes"], " Yes.\\n\\ninput: Next")["exact_match"].passed
True
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import ConfigError
from harness.ports import Metric
from harness.records import Score
from harness.scoring.overlap.match import exact_match, named_label, token_f1
from harness.scoring.overlap.rouge_l import rouge_l
from harness.scoring.truncation import before_stop, first_line
from harness.tasks.natural_instructions.failures import failures

Truncation = Literal["none", "first_line", "stop"]

LONGEST_REFERENCE = 60
"""Characters of a reference that a reason quotes."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The scores of an answer.

    truncation: which part is the answer for `exact_match`, `token_f1`, `accuracy` and the metrics.
    stops: where it ends, for the truncation ``stop``.
    metrics: further ones by name.

    Raises: ConfigError where the two do not go together.
    """

    truncation: Truncation
    stops: Sequence[str] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.truncation == "stop") != bool(self.stops):
            raise ConfigError(
                "task.stop and task.truncation: stop go together.",
                "Name both the truncation and the sequences at which an answer ends.",
            )
        if not all(self.stops):
            raise ConfigError("A stop sequence of task.stop is empty.", "Remove it.")

    def answer(self, text: str) -> str:
        """The part of a text that is taken for the answer."""
        if self.truncation == "first_line":
            return first_line(text)
        return before_stop(text, self.stops) if self.stops else text

    def right(self, outputs: Sequence[str], text: str) -> bool:
        """Whether the answer is one of the references."""
        return exact_match(self.answer(text), outputs)

    def scores(
        self, outputs: Sequence[str], text: str, labels: Collection[str] = (), source: str = ""
    ) -> dict[str, Score]:
        """The scores of a text by name.

        outputs: the references.
        source: the input.
        labels: of a classification, bare; then there is an `accuracy`, which forgives what follows
            the label.
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
            found["accuracy"] = Score(
                label is not None and exact_match(label, outputs),
                reason="" if label is not None else "names no label",
            )
            found["no_label"] = Score(label is None)
        for name, metric in self.metrics.items():
            found[name] = Score(metric.score(answer, outputs))
        whole = exact_match(text, outputs)
        ways = failures(text, right=whole, references=outputs, source=source)
        return found | {name: Score(failed) for name, failed in ways.items()}


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST_REFERENCE else f"{text[: LONGEST_REFERENCE - 1]}…")
