"""Whether a reply says yes or no, by rules that read neither into what says neither.

In this order: the reply's first word, where it stands for itself ("No, …", "**Yes**"); the last
"answer: yes" or "the answer is no" in it; the only word of its kind that stands for itself. Else
it is a non-answer: a "no" before a noun ("no errors") is none.

>>> said("Yes.\\nBecause …"), said("There are no errors.\\nAnswer: `yes`")
('yes', 'yes')
"""

from __future__ import annotations

import re
from typing import Literal, cast

from harness.errors import Unparseable

_ITSELF = r"(yes|no)(?=[\s*_`]*(?:[^\w\s*_`]|\n|\Z)|\s+(?:it|this|that|the|because|since|as)\b)"
_FIRST = re.compile(rf"[\W_]*{_ITSELF}", re.IGNORECASE)
_CONCLUSION = re.compile(rf"\banswer\b(?:\s+is)?[\W_]{{0,9}}{_ITSELF}", re.IGNORECASE)
_ANY = re.compile(rf"(?<!\w){_ITSELF}", re.IGNORECASE)

LONGEST = 100_000
"""Characters that are looked at."""


def said(text: str) -> Literal["yes", "no"]:
    """The answer of a reply.

    Raises: Unparseable.
    """
    text = text[:LONGEST]
    first = _FIRST.match(text)
    found = [first[1]] if first else _CONCLUSION.findall(text)[-1:] or _ANY.findall(text)
    answers = {word.lower() for word in found}
    if len(answers) != 1:
        raise Unparseable("both yes and no" if answers else "neither yes nor no")
    return cast("Literal['yes', 'no']", answers.pop())
