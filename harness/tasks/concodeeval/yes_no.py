"""Whether a reply says yes or no, by rules that read neither into what says neither.

What a reasoning model thinks aloud (``<think>…</think>``) is no part of the reply. Then, in this
order: the reply's first word, where it stands for itself ("No, …", "**Yes**"); its last line,
where that is the word alone; the last "answer: yes" or "the answer is no"; the only word of its
kind that stands for itself. Else it is a non-answer: a "no" before a noun ("no errors", 'no
"required" member') is none, nor is the question said again ("Yes/No").

>>> said("Yes.\\nBecause …"), said("There are no errors.\\nAnswer: `yes`")
('yes', 'yes')
"""

from __future__ import annotations

import re
from typing import Literal, cast

from harness.errors import Unparseable

_ENDS = r"[*_`'\")\]}]*(?:[.,;:!?…]|\s*(?:[-\u2013\u2014]|\n|\Z|</|<\|))"
_FOLLOWS = r"\s+(?:it|this|that|the|because|since|as|based)\b"
_MARKED = r"[*_`]+(?!\w)"
_ITSELF = rf"(yes|no)(?={_ENDS}|{_FOLLOWS}|{_MARKED})"
_QUESTION = re.compile(r"\b(?:yes|no)\s*(?:[/|]|or\b)\s*(?:yes|no)\b", re.IGNORECASE)
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_FIRST = re.compile(rf"[\W_]*{_ITSELF}", re.IGNORECASE)
_LAST_LINE = re.compile(r"[\W_]*(yes|no)[\W_]*", re.IGNORECASE)
_CONCLUSION = re.compile(rf"\banswer\b(?:\s+is)?[\W_]{{0,9}}{_ITSELF}", re.IGNORECASE)
_ANY = re.compile(rf"(?<!\w){_ITSELF}", re.IGNORECASE)

LONGEST = 100_000
"""Characters that are looked at, of the end where there are more."""


def said(text: str) -> Literal["yes", "no"]:
    """The answer of a reply.

    Raises: Unparseable.
    """
    text = _QUESTION.sub("", _THOUGHT.sub("", text[-LONGEST:])).strip()
    last_line = text.rpartition("\n")[2]
    if first := _FIRST.match(text):
        found = [first[1]]
    elif last := _LAST_LINE.fullmatch(last_line.strip()[:40]):
        found = [last[1]]
    else:
        found = _CONCLUSION.findall(text)[-1:] or _ANY.findall(text)
    answers = {word.lower() for word in found}
    if len(answers) != 1:
        raise Unparseable("both yes and no" if answers else "neither yes nor no")
    return cast("Literal['yes', 'no']", answers.pop())
