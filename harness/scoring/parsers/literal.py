"""The plain text that a regular expression asks for around its first group.

So that a prompt can be searched for it, and a right answer be written in its form.

>>> around_group(r"answer is:? \\(([A-E])\\)")
Around(before='answer is (', after=')')
>>> around_group(r"(?:result|answer) (\\w+)") is None
True
"""

from __future__ import annotations

from typing import NamedTuple

SPECIAL = frozenset("[]{}()*+?.^$|")
MULTIPLIERS = frozenset("*+?{")
ESCAPED = {"s": " ", "n": "\n", "t": "\t", "b": "", "A": "", "Z": "", "z": ""}
"""Escapes that a plain text can stand for; ``\\s`` is a space."""


class Around(NamedTuple):
    """The plain text before and after the group that captures the answer."""

    before: str
    after: str


def around_group(pattern: str) -> Around | None:
    """What is around the first capturing group; None where that is no plain text.

    Anchors say nothing of the text. A part that may be left out (``:?``, ``\\s*``) is.
    """
    before = _literal(pattern, 0)
    if before is None or before[1] >= len(pattern) or pattern[before[1]] != "(":
        return None
    opened = before[1]
    if pattern[opened : opened + 2] == "(?" and pattern[opened : opened + 3] != "(?P":
        return None
    closed = _closing(pattern, opened)
    if closed is None or pattern[closed + 1 : closed + 2] in {*MULTIPLIERS}:
        return None
    after = _literal(pattern, closed + 1)
    if after is None or after[1] < len(pattern):
        return None
    return Around(before[0], after[0])


def _literal(pattern: str, start: int) -> tuple[str, int] | None:
    """The plain text from a place on, and where it ends: at a group or at the end."""
    said: list[str] = []
    place = start
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            escaped = pattern[place + 1 : place + 2]
            if escaped.isalnum() and escaped not in ESCAPED:
                return None
            piece, place = ESCAPED.get(escaped, escaped), place + 2
        elif character in "^$":
            piece, place = "", place + 1
        elif character == "(":
            break
        elif character in SPECIAL:
            return None
        else:
            piece, place = character, place + 1
        following = pattern[place : place + 1]
        if following in ("?", "*"):
            piece, place = "", place + 1
        elif following == "+":
            place += 1
        elif following == "{":
            return None
        said.append(piece)
    return "".join(said), place


def _closing(pattern: str, opened: int) -> int | None:
    depth, place, in_class = 0, opened, False
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            place += 2
            continue
        if in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            if pattern[place + 1 : place + 2] in ("]", "^"):
                place += 1
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    return None
