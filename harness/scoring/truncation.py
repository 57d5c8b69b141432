"""Which part of a model's text is its answer: all, the first line, or what is before a stop.

A model that only completes text goes on after its answer with another input, and where it is cut
moves ROUGE-L by ten points: so the cut is a setting that is stated, never a matter of course.

>>> first_line(" Yes.\\n\\ninput: Next")
'Yes.'
"""

from __future__ import annotations

from collections.abc import Sequence


def first_line(text: str) -> str:
    """The first line that is not empty, without white space around the text."""
    lines = text.strip().splitlines()
    return lines[0] if lines else ""


def before_stop(text: str, stops: Sequence[str]) -> str:
    """What is before the first stop sequence, leading white space apart."""
    text = text.lstrip()
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=None)]
