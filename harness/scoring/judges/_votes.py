"""Yes or no by sampled votes, for models that tell no log-probabilities.

A vote is a reply that is a yes or a no and nothing else, but for case and punctuation.

>>> [vote(text) for text in ("Yes.", "**no**", "Yes, mostly", "It is.")]
[True, False, None, None]
>>> share_of_yes([True, None, False, True])
0.6666666666666666
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.scoring.judges._yes_probability import NO, YES

VOTES = 5
"""Where the run file does not say how many: an odd number, so that there is no tie."""


def vote(text: str) -> bool | None:
    """What a reply says; None where that is no vote."""
    if YES.fullmatch(text):
        return True
    return False if NO.fullmatch(text) else None


def share_of_yes(votes: Sequence[bool | None]) -> float | None:
    """Of those that are one; None where none is."""
    cast = [one for one in votes if one is not None]
    return sum(cast) / len(cast) if cast else None
