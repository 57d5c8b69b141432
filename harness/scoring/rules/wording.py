"""A constraint as the recognisers read it: in lower case, with what it quotes put aside.

>>> read('Don’t use the word "Snow".')
Wording(text="don't use the word «0»", quoted=('Snow',))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 400
"""Characters of a constraint that may be decided by a rule: a longer one says more than that."""

QUOTED = re.compile(
    r"""
      \u201c([^\u201c\u201d]*)\u201d
    | "([^"]*)"
    | \u2018([^\u2018\u2019]*)\u2019(?!\w)
    | (?<!\w)'([^']*)'(?!\w)
    | `([^`]*)`
    """,
    re.VERBOSE,
)
UNPAIRED = re.compile('[\u201c\u201d"\u2018`]')

# The answer by a name that means the whole of it. A summary, a title, a section, the final answer
# may be a part of what is asked for, and is not among them.
_NOUN = (
    "response|answer|reply|output|text|message|poem|(?:short )?story|essay|article|(?:cover )?"
    "letter|e-?mail|(?:literature )?review|(?:blog )?post|blog|speech|tweet|report|piece|passage|"
    "document|content|haiku|limerick|sonnet|song|writing|completion"
)
NOUN = f"(?:{_NOUN})"
WHOLE = (
    r"(?:(?:the|your|this|a|an) )?"
    r"(?:(?:whole|entire|overall|full|generated|complete) )?"
    rf"{NOUN}"
)
SUBJECT = f"(?:{WHOLE}|it|everything)"
ENSURE = "(?:please )?(?:(?:ensure|make sure|be sure|make certain)(?: that)? )?"
MODAL = "(?:should|must|has to|needs to|have to|need to|is to|shall|will|can|may|is|are)"
MARK = "«([0-9]+)»"


@dataclass(frozen=True, slots=True)
class Wording:
    """A constraint in small letters; ``«0»`` stands for the first of the quoted texts."""

    text: str
    quoted: tuple[str, ...] = ()


def read(constraint: str) -> Wording | None:
    """A constraint's wording; None where it is too long or its quotes do not pair."""
    if len(constraint) > LONGEST or "«" in constraint or "»" in constraint:
        return None
    quoted: list[str] = []

    def aside(found: re.Match[str]) -> str:
        quoted.append(next(one for one in found.groups() if one is not None))
        return f"«{len(quoted) - 1}»"

    text = QUOTED.sub(aside, constraint)
    if UNPAIRED.search(text) or not all(one.strip() for one in quoted):
        return None
    text = " ".join(text.replace("\u2019", "'").lower().split())
    return Wording(text.rstrip(" .!;,"), tuple(quoted))


def verbatim(quoted: str) -> str | None:
    """A quoted text as it must stand in the answer.

    None where it ends with a period or comma: American typesetting puts these inside the
    quotation marks whether or not they belong to the text.
    """
    return None if quoted.rstrip().endswith((".", ",")) else quoted.strip()
