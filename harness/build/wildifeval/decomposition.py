"""A message taken apart: its task, its context, and its constraints.

>>> decomposition("Task: Write a poem.\\nContext: none\\nConstraints:\\n1. It should be short.")
Decomposition(task='Write a poem.', context='', constraints=('It should be short.',))
"""

from __future__ import annotations

import re

from msgspec import Struct

from harness.errors import Unparseable

LONGEST = 1_000
"""Characters of a constraint: what is longer is no one condition."""

_HEADER = re.compile(
    r"^[ \t#*]{0,8}(task|context|constraints?)[ \t*]{0,4}:[ \t*]{0,4}", re.I | re.M
)
_NUMBER = re.compile(r"^[ \t*]{0,8}(?:\d{1,3}[.)]|[-*•])[ \t]+", re.M)
_NOTHING = re.compile(r"\W*(?:none|nothing|n/a|no (?:context|constraints))?\W*", re.I)


class Decomposition(Struct, frozen=True):
    """What a message asks for.

    task: without its conditions; context: what is given to work with, empty for nothing.
    constraints: each by itself, in the model's words; none of them twice.
    """

    task: str
    context: str
    constraints: tuple[str, ...]


def decomposition(reply: str) -> Decomposition:
    """Read a reply.

    Raises: Unparseable where it has not the form that was asked for.
    """
    parts = _HEADER.split(reply)
    found: dict[str, str] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(name.lower().removesuffix("s"), text)
    if "constraint" not in found:
        raise Unparseable("The reply has no constraints in it.")
    listed = found["constraint"]
    numbered = _NUMBER.split(listed)
    if len(numbered) == 1:
        if not _NOTHING.fullmatch(listed.strip()):
            raise Unparseable("The constraints are not numbered.")
        numbered = [""]
    constraints: dict[str, str] = {}
    for one in numbered[1:]:
        text = _line(one)
        if len(text) > LONGEST:
            raise Unparseable(f"A constraint of more than {LONGEST:,} characters.")
        if not _NOTHING.fullmatch(text):
            constraints.setdefault(sameness(text), text)
    context = _line(found.get("context", ""))
    return Decomposition(
        _line(found.get("task", "")),
        "" if _NOTHING.fullmatch(context) else context,
        tuple(constraints.values()),
    )


def sameness(constraint: str) -> str:
    """What the same constraints share: all but case, spaces and the mark at the end."""
    return " ".join(constraint.casefold().split()).rstrip(".!;, ")


def _line(text: str) -> str:
    return " ".join(text.split())
