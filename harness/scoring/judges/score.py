"""How good is an answer? A model analyses it and concludes with a number; samplings are averaged.

As it comes, it is COLLIE's judge of coherence (Yao et al. 2023, arXiv 2307.08689): a passage is
analysed, "Thus, the coherency score is s" concludes, s is an integer from 1 to 10, and three
samplings are averaged.

    judges:
      - {name: score, as: coherence, where: {structure: pass01}, model: {backend: openai, name: gpt-4}}
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import ConfigError, Unparseable
from harness.ports import Task
from harness.records import Decoding, Instance, Reply, Request, Score
from harness.scoring.judges._asking import Asking, Scope, samplings
from harness.scoring.judges._number import ConcludingNumber, mean

COHERENCY = r"coherency score is:?\s{0,3}[*_\"']{0,3}(\d+)(?!\d|[.,]\d|\s?[-\u2013]\s?\d)"
"""A fraction is no integer, and a range no number."""


class NumberJudge:
    """Asks for an analysis that concludes with a number, and averages some of them.

    prompt: the name of a template in prompts/judges, or a file; it is given text, low, high,
        and asked where the task says what the model was asked.
    pattern: finds the number in a reply, in its one group; the last match counts.
    low, high: a number beyond these is none.
    samples: how often it is asked.
    passes_from: the least mean that passes; without it the score gives no verdict.
    temperature, max_tokens: of a reply; one that was cut off holds no number.
    where: only answers to instances of these groups are judged: label to group or groups.
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
        model: str,
    ) -> None:
        if samples < 1 or max_tokens < 1 or temperature < 0:
            raise ConfigError("samples and max_tokens must be 1 or more, temperature 0 or more.")
        self._asking = Asking(prompt, {"low", "high"}, task)
        self._number = ConcludingNumber(pattern, low, high)
        if passes_from is not None and not low <= passes_from <= high:
            raise ConfigError("passes_from must be within low and high.")
        self._bounds = {"low": f"{low:g}", "high": f"{high:g}"}
        self._samples, self._passes_from, self._model = samples, passes_from, model
        self._decoding = Decoding(temperature=temperature, max_tokens=max_tokens)
        self._scope = Scope(where or {})

    @property
    def verdicts(self) -> bool:
        """Only with a mark to pass."""
        return self._passes_from is not None

    def fingerprint(self) -> Mapping[str, str]:
        """What it asks with."""
        return {"prompt_sha256": self._asking.sha256}

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """The same question, each time with a sample number of its own; none out of scope."""
        if not self._scope.has(instance):
            return []
        messages = self._asking.about(instance, text, **self._bounds)
        return samplings(instance, self._model, messages, self._decoding, self._samples)

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """``score``: the mean of what can be read.

        Raises: Unparseable where nothing can.
        """
        if not self._scope.has(instance):
            return {}
        readings = [self._number.read(reply) for reply in replies]
        value = mean(readings)
        if value is None:
            raise Unparseable("No reply concludes with a number within the bounds.")
        mark = self._passes_from
        passed = None if mark is None else value >= mark
        reason = f"The score is {value:g}, below {mark:g}." if passed is False else ""
        return {"score": Score(value, passed, reason, {"readings": readings})}

    def simulated(self, request: Request) -> str:
        """COLLIE's conclusion with a good number; another pattern does not find it."""
        return "It hangs together well. Thus, the coherency score is 8."


plugin = NumberJudge
