"""What models reply when they are to choose from a list, or to write one.

>>> numbered_names("1. Sports\\n2) *Travel*\\n")
['Sports', 'Travel']
>>> chosen("2. travel", ["Sports", "Travel"])
'Travel'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from harness.tasks.wildifeval.categories import CATEGORIES, OTHER, named

LONGEST_NAME = 60
"""Characters: what is longer is no name."""

_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,3}[.):]|[-*•])[ \t]+(.{1,200})$", re.M)
_NUMBER = re.compile(r"\W{0,4}(\d{1,3})\W{0,4}")
_PREFIX = re.compile(r"\W{0,4}\d{1,3}[.):]\s{0,4}")
_OTHER = re.compile(r"\W{0,4}other\b\W{0,8}(.{0,200})", re.I | re.S)


class Category(Struct, frozen=True):
    """The kind of a constraint.

    name: empty where the model named none; title: what it called one that is of no known kind.
    """

    name: str = ""
    title: str = ""


def numbered_names(reply: str) -> list[str]:
    """The names of a numbered list, none of them twice in any case."""
    found: dict[str, str] = {}
    for item in _ITEM.findall(reply):
        name = bare(re.split(r":\s|\s[-\u2013\u2014]\s", item, maxsplit=1)[0])
        if name and len(name) <= LONGEST_NAME:
            found.setdefault(name.casefold(), name)
    return list(found.values())


def chosen(reply: str, names: Sequence[str]) -> str:
    """The name that a reply chooses, by itself, its number or both; empty where it chooses none."""
    line = next((line for line in reply.splitlines() if line.strip()), "")
    if number := _NUMBER.fullmatch(line):
        place = int(number[1])
        return names[place - 1] if 1 <= place <= len(names) else ""
    said = _letters(_PREFIX.sub("", line, count=1))
    return next((name for name in names if _letters(name) == said), "")


def category(reply: str) -> Category:
    """The kind of constraint that a reply names."""
    kinds = list(CATEGORIES)
    if found := chosen(reply, kinds):
        return Category(found)
    line = next((line for line in reply.splitlines() if line.strip()), "")
    line = _PREFIX.sub("", line, count=1)
    if other := _OTHER.fullmatch(line):
        title = bare(other[1])
        return Category(OTHER, title[:LONGEST_NAME])
    name = named(bare(line))
    return Category(name) if name in CATEGORIES else Category()


def bare(name: str) -> str:
    """A name without the marks around it, in one line."""
    return " ".join(name.split()).strip("*_`\"' .:;")


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
