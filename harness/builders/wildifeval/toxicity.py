"""How probable it is that a message is toxic, by alt-profanity-check.

A linear classifier over the words of a text, trained on posts and comments of the web; its model
comes with its package. It finds swearing and insults in English, the ordinary spellings of them;
it takes some harmless words for them ("sex education"), and it does not understand a text:
neither a threat in polite words nor a request for something terrible is found. A model can be
asked instead (``screen.toxicity: model``); the paper asked Detoxify, whose weights are not
shipped with its package.

>>> toxicities(["Write a haiku."])[0] < 0.5  # doctest: +SKIP
True
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 20_000
"""Characters that are looked at."""


def toxicities(texts: Sequence[str]) -> list[float]:
    """The probability of each text."""
    from profanity_check import predict_prob

    if not texts:
        return []
    return [float(found) for found in predict_prob([text[:LONGEST] for text in texts])]
