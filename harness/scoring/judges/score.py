"""Judges an answer: the model analyses it and concludes with a number, averaged over samples.

The defaults are COLLIE's judge of coherence (Yao et al. 2023, arXiv 2307.08689). Its model analyses
a passage and concludes "Thus, the coherency score is s" with an integer from 1 to 10. Three samples
are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import ConfigError, Unparseable
from harness.ports import Task
from harness.records import Decoding, Instance, Question, Reply, Request, Score
from harness.scoring.judges import JudgePrompt, PromptJudge, graded, mean
from harness.scoring.numbers import only_number
from harness.scoring.patterns import Pattern, PatternTooSlow

COHERENCY = r"coherency score is:?\s{0,3}[*_\"']{0,3}(\d+)(?!\d|[.,]\d|\s?[-\u2013]\s?\d)"
"""Matches an integer after "coherency score is", but neither a decimal fraction nor a range."""


class NumberJudge(PromptJudge):
    """Asks for an analysis that concludes with a number.

    Args:
        prompt: Name of a built-in template, or a file. Fields: text, low, high, asked.
        pattern: Regular expression with the number as its only group. The last match counts.
        low: Lowest valid number.
        high: Highest valid number.
        samples: How often the question is asked.
        passes_from: Lowest mean that passes, or None for no verdict.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens of a reply. A truncated reply has no number.
        where: Judge only instances in these groups: maps a label to a group or a list of groups.
    """

    def __init__(
        self,
        prompt: str = "coherence",
        pattern: str = COHERENCY,
        low: float = 1,
        high: float = 10,
        samples: int = 3,
        passes_from: float | None = None,
        temperature: float = 0.7,
        max_tokens: int = 1000,
        where: dict[str, str | list[str]] | None = None,
        *,
        task: Task[Any],
    ) -> None:
        template = JudgePrompt(prompt, {"low", "high"}, task)
        super().__init__(template, Decoding(temperature, max_tokens), samples, where)
        self._pattern = Pattern(pattern, "pattern", ignore_case=True)
        if self._pattern.groups != 1:
            problem = f"pattern has {self._pattern.groups} groups, but needs one for the number."
            raise ConfigError(problem, "Write the other groups as (?:…).")
        if not low < high:
            raise ConfigError(f"low ({low:g}) must be below high ({high:g}).")
        if passes_from is not None and not low <= passes_from <= high:
            raise ConfigError("passes_from must be between low and high.")
        self._low, self._high, self._passes_from = low, high, passes_from
        self.verdicts = passes_from is not None

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return one question about the answer, or none if the instance is skipped."""
        if not self.judges(instance):
            return []
        return [self.question(instance, text, low=f"{self._low:g}", high=f"{self._high:g}")]

    def read(self, reply: Reply) -> float | None:
        """Return a reply's number, or None if the reply has none within the bounds.

        The result is also None for a truncated reply, and if the search takes too long.
        """
        if reply.finish_reason == "length":
            return None
        try:
            match = self._pattern.find(reply.text, "last")
        except PatternTooSlow:
            return None
        number = only_number(match[1] or "") if match else None
        if number is None or not self._low <= number <= self._high:
            return None
        return float(number)

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return ``score``, the mean of the valid numbers, or {} if the instance is skipped.

        Raises:
            Unparseable: If no reply has a valid number.
        """
        if not self.judges(instance):
            return {}
        readings = [self.read(reply) for reply in replies]
        value = mean(readings)
        if value is None:
            raise Unparseable("No reply concludes with a number within the bounds.")
        reason = f"The score is {value:g}, below {self._passes_from or 0:g}."
        return {"score": graded(value, self._passes_from, reason, {"readings": readings})}

    def simulated(self, request: Request) -> str:
        """Return COLLIE's conclusion with an 8, which a custom ``pattern`` may not match."""
        return "It hangs together well. Thus, the coherency score is 8."


plugin = NumberJudge
