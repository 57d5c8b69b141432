"""Names under which models are kept apart, bounded: a client can make up any number of them.

>>> kept_as("gpt-4", {"gpt-4": 1}), kept_as("x" * 1000, {})
('gpt-4', '(other models)')
"""

from __future__ import annotations

from collections.abc import Collection

MOST = 1000
"""So many models are told apart, the first ones that are asked for."""
LONGEST = 200
"""Characters of the longest name that is kept."""
OTHERS = "(other models)"
"""What all models beyond those are kept under, together."""


def kept_as(model: str, known: Collection[str]) -> str:
    """The name that a model is kept under, where these are known already."""
    if model in known or (len(known) < MOST and len(model) <= LONGEST):
        return model
    return OTHERS
