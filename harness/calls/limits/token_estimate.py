"""How many tokens a call will use: a guess to reserve by, learned from the calls before.

Counting exactly would take the provider's tokeniser. Until a few calls have
been seen the guess is a generous bound, from then on it is the mean so far,
and the spread tells how much may be missing for several calls together.
"""

from __future__ import annotations

from math import sqrt

from harness.records import Request, Usage

LEARNED = 20
"""Calls after which the mean is trusted."""
MEMORY = 200
"""Calls that the means reach back over, so that they follow a run from group to group."""
SIGMAS = 4.0

BOUND_CHARACTERS = 2.0
"""Characters a token, at the fewest that is usual (code, digits)."""
BOUND_MESSAGE = 20
"""Tokens that a message has besides its text."""
BOUND_TIMES = 3
"""Until the mean is trusted: times the longest answer so far."""
BOUND_OUTPUT = 1000
"""Output tokens where the run file sets no most."""


class _Mean:
    """A mean that forgets, and the mean square error of its own forecasts."""

    def __init__(self) -> None:
        self.seen = 0
        self.value = 0.0
        self.error = 0.0

    def learn(self, value: float, weight: float) -> None:
        """weight: turns a difference of values into one of tokens."""
        rate = 1 / min(self.seen + 1, MEMORY)
        missed = value - self.value
        if self.seen:
            self.error += rate * ((missed * weight) ** 2 - self.error)
        self.value += rate * missed
        self.seen += 1


class TokenEstimate:
    """Input and output tokens of a model's calls."""

    def __init__(self) -> None:
        self._per_character = _Mean()
        self._output = _Mean()
        self._longest = 1

    def of(self, request: Request) -> tuple[float, float]:
        """Expected tokens of input and output."""
        size = characters(request)
        written = request.decoding.max_tokens or BOUND_OUTPUT
        if self._output.seen < LEARNED:
            if self._output.seen:  # a most of 8,192 says little of answers that have had 20
                written = min(written, BOUND_TIMES * self._longest)
            return size / BOUND_CHARACTERS + BOUND_MESSAGE * len(request.messages), written
        return size * self._per_character.value, min(self._output.value, written)

    def learn(self, request: Request, usage: Usage) -> None:
        """A call has ended."""
        size = max(1, characters(request))
        self._per_character.learn(usage.input_tokens / size, size)
        self._output.learn(usage.output_tokens, 1.0)
        self._longest = max(self._longest, usage.output_tokens)

    def margins(self, calls: int) -> tuple[float, float]:
        """Input and output tokens that so many calls may take beyond the sum of their guesses."""
        spread = SIGMAS * sqrt(calls)
        return spread * sqrt(self._per_character.error), spread * sqrt(self._output.error)


def characters(request: Request) -> int:
    """Characters of a request's messages."""
    return sum(len(message.content) for message in request.messages)
