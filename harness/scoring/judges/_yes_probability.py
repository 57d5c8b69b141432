"""The probability of yes, from the log-probabilities of an answer's first tokens.

Looked at are the five likeliest tokens of each of the first five positions. The first position
decides where the tokens that are a yes or a no (whatever case, with anything but letters and
digits around them, or the marks of a tokeniser) have more than 1e-4 of the probability
together: yes / (yes + no). Where there is no such position the answer says neither.

Source: WildIFEval (Lior et al. 2025, arXiv 2503.06573), as issue 8 has its rule.

>>> from harness.records import TokenLogprob
>>> found = yes_probability(((TokenLogprob("Yes", -0.5), TokenLogprob(" no", -1.5)),))
>>> round(found.probability, 6), found.position
(0.731059, 0)
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from harness.records import Logprobs, TokenLogprob

TOKENS = 5
"""Of a position, and so how many are asked for."""
POSITIONS = 5
LEAST_MASS = 1e-4
SATISFIED = 0.5
"""The least probability of a yes."""

_AROUND = r"(?:\W|Ġ|_)*"
YES = re.compile(f"{_AROUND}yes{_AROUND}", re.IGNORECASE)
NO = re.compile(f"{_AROUND}no{_AROUND}", re.IGNORECASE)


class YesProbability(NamedTuple):
    """How probable yes is, and by what.

    position: from 0; tokens: the likeliest there, most likely first.
    """

    probability: float
    position: int
    tokens: tuple[TokenLogprob, ...]


def yes_probability(logprobs: Logprobs) -> YesProbability | None:
    """What an answer's tokens say; None where they say neither."""
    for position, likeliest in enumerate(logprobs[:POSITIONS]):
        tokens = likeliest[:TOKENS]
        yes, no = _mass(tokens, YES), _mass(tokens, NO)
        if yes + no > LEAST_MASS:
            return YesProbability(yes / (yes + no), position, tokens)
    return None


def _mass(tokens: tuple[TokenLogprob, ...], word: re.Pattern[str]) -> float:
    return math.fsum(math.exp(one.logprob) for one in tokens if word.fullmatch(one.token))
