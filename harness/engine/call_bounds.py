"""Bounds on the number, tokens and cost of calls that are still to be made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from harness.calls.prompt_cache import SharedBeginnings
from harness.ports import CachesPrompts
from harness.records import Message, Question, Usage

if TYPE_CHECKING:
    from harness.engine.models import Model

CHARACTERS_PER_TOKEN = (6.0, 2.5)  # the usual range, from plain English to code
# Tokens of the chat template, as OpenAI counts them. Some providers count none.
PER_CALL, PER_MESSAGE = 3, 4
FEEDBACK_TOKENS = 150  # tokens of one feedback message, generously estimated


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """Lower and upper bounds of an estimate. ``high`` may be infinite."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: EstimateRange) -> EstimateRange:
        return EstimateRange(self.low + other.low, self.high + other.high)


class CallEstimate(NamedTuple):
    """The number, tokens and cost (US dollars) of calls to make."""

    calls: EstimateRange
    input_tokens: EstimateRange
    output_tokens: EstimateRange
    usd: EstimateRange | None  # None: the price is unknown
    saved_usd: EstimateRange  # by the provider's prompt cache; only `usd.low` is reduced by it
    cached: int = 0  # further calls, of a judge, whose replies are cached
    at_most: bool = False  # whether prompts depend on future answers, so that some may be cached


class CallBounds:
    """Running totals for a model's calls."""

    def __init__(self, model: Model | None) -> None:
        price = model.usual_price if model else None
        self._price = price.cost if price else None
        backend = model.backend if model else None
        caching = isinstance(backend, CachesPrompts) and backend.prompt_caching
        self._beginnings = SharedBeginnings() if caching else None
        self.calls = self.read = self.written = self.usd = self.saved = EstimateRange()
        self.cached, self.at_most = 0, False

    def estimate(self) -> CallEstimate:
        """Return the totals as an estimate. The cost is None if it depends on an unknown price."""
        usd = self.usd if self._price or not self.calls.high else None
        return CallEstimate(
            self.calls, self.read, self.written, usd, self.saved, self.cached, self.at_most
        )

    def add(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        *,
        certain: bool,
        before: int = 0,
        further: float = 0,
        answer: int = 1,
        joint: bool = False,
    ) -> None:
        """Add a call, which raises only the upper bounds if it is not ``certain``.

        The prompt ``messages`` may grow by ``before`` rounds and ``further`` tokens. The reply has
        ``answer`` to ``max_tokens`` tokens. A ``joint`` call may be combined with the previous one.
        """
        characters = sum(len(message.content) for message in messages)
        fewest, most = (characters / each for each in CHARACTERS_PER_TOKEN)
        longest = inf if max_tokens is None else max_tokens
        most += further + PER_CALL + PER_MESSAGE * len(messages)
        if before:
            most += before * (FEEDBACK_TOKENS + longest)
        fewest = 0 if joint else fewest
        self.calls += EstimateRange(certain and not joint, 1)
        self.read += EstimateRange(fewest * certain, most)
        self.written += EstimateRange(answer * certain, longest)
        if (price := self._price) is not None:
            low = price(Usage(round(fewest), answer)) if certain else 0.0
            if max(most, longest) < inf:
                high = price(Usage(round(most), round(longest)))
            else:
                high = inf if price(Usage(10**6, 10**6)) else 0.0
            saved = self._saved(messages) if certain and not joint else EstimateRange()
            self.usd += EstimateRange(max(0.0, low - saved.low), high)
            self.saved += saved

    def _saved(self, messages: Sequence[Message]) -> EstimateRange:
        """Return what the prompt cache saves on a call (US dollars)."""
        if self._beginnings is None or self._price is None:
            return EstimateRange()
        new = self._beginnings(messages) is None
        found = self._beginnings.add(messages)
        if found is None or found.cut is None or new:
            return EstimateRange()
        place, at = found.cut
        kept = sum(len(message.content) for message in messages[:place]) + at
        tokens = [round(kept / each) for each in CHARACTERS_PER_TOKEN]
        return EstimateRange(*(self._price(Usage(n)) - self._price(Usage(n, 0, n)) for n in tokens))

    def add_questions(
        self, questions: Sequence[Question], *, certain: bool, further: float
    ) -> None:
        """Add a judge's calls for a future answer, with arguments as in `add`."""
        self.at_most |= bool(questions)
        for asked in questions:
            longest = asked.decoding.max_tokens
            for _ in range(asked.samples):
                self.add(asked.messages, longest, certain=certain, further=further)
