"""Yes or no from a model: the probability of yes from log-probabilities, or a share of votes.

Log-probabilities: the five likeliest tokens of each of the first five positions are examined. The
first position decides at which the tokens that read as yes or no (in any case, with anything but
letters and digits around them, or a tokeniser's marks) hold more than 1e-4 of the probability
together: yes / (yes + no). If there is no such position, the answer says neither.

Votes, for models without log-probabilities: a vote is a reply that is a yes or a no and nothing
else, apart from case and punctuation.

Source: WildIFEval (Lior et al. 2025, arXiv 2503.06573), as issue 8 has its rule.

>>> found = yes_probability(((TokenLogprob("Yes", -0.5), TokenLogprob(" no", -1.5)),))
>>> round(found.probability, 6), found.position
(0.731059, 0)
>>> [vote(text) for text in ("Yes.", "**no**", "Yes, mostly", "It is.")]
[True, False, None, None]
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from harness.records import Logprobs, TokenLogprob

TOKENS = 5
"""Tokens of a position that are examined, and that are asked for."""
POSITIONS = 5
LEAST_MASS = 1e-4
SATISFIED = 0.5
"""The least probability that counts as a yes."""
VOTES = 5
"""Default number of votes: odd, so that there is no tie."""

_AROUND = r"(?:\W|Ġ|_)*"
_YES = re.compile(f"{_AROUND}yes{_AROUND}", re.IGNORECASE)
_NO = re.compile(f"{_AROUND}no{_AROUND}", re.IGNORECASE)


class YesProbability(NamedTuple):
    """The probability of yes, and where it was read.

    Attributes:
        probability: Of yes among yes and no.
        position: Index of the deciding token.
        tokens: The likeliest tokens there, most likely first.
    """

    probability: float
    position: int
    tokens: tuple[TokenLogprob, ...]


def yes_probability(logprobs: Logprobs) -> YesProbability | None:
    """Read the probability of yes from an answer's tokens; None if they say neither."""
    for position, likeliest in enumerate(logprobs[:POSITIONS]):
        tokens = likeliest[:TOKENS]
        yes, no = _mass(tokens, _YES), _mass(tokens, _NO)
        if yes + no > LEAST_MASS:
            return YesProbability(yes / (yes + no), position, tokens)
    return None


def _mass(tokens: tuple[TokenLogprob, ...], word: re.Pattern[str]) -> float:
    return math.fsum(math.exp(one.logprob) for one in tokens if word.fullmatch(one.token))


def vote(text: str) -> bool | None:
    """A reply's vote; None if it is neither a yes nor a no."""
    return True if _YES.fullmatch(text) else False if _NO.fullmatch(text) else None


def share_of_yes(votes: Sequence[bool | None]) -> float | None:
    """The share of yes among the valid votes; None if there are none.

    >>> share_of_yes([True, None, False, True])
    0.6666666666666666
    """
    valid = [one for one in votes if one is not None]
    return sum(valid) / len(valid) if valid else None
