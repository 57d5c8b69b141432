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
_MARK = re.compile(r"[ *]{0,8}(?:(\d{1,3}[.)])|[-*•]) +")
_FENCE_OR_RULE = re.compile(r" *(?:```|~~~|(?:- *){3,}$|(?:\* *){3,}$|(?:_ *){3,}$)")
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
        if "constraint" in found:
            raise Unparseable("The constraints are not the last part of the reply.")
        found.setdefault(name.lower().removesuffix("s"), text)
    if "constraint" not in found:
        raise Unparseable("The reply has no constraints in it.")
    constraints: dict[str, str] = {}
    for one in _items(found["constraint"]):
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


def _items(listed: str) -> list[str]:
    """The items of a list, each with the lines that belong to it.

    Items have the kind of mark of the first one, a number or a bullet. What has another mark, or
    stands as deep as an item's text, belongs to the item before it. A blank line, a fence or a
    rule ends an item; other text after that is a remark of the model's, and none of the list.

    Raises: Unparseable where nothing is listed, or the list goes on after a remark.
    """
    items: list[list[str]] = []
    before: list[str] = []
    numbered, text_from = False, 0
    ended = remarked = False
    for line in listed.expandtabs(4).split("\n"):
        depth = len(line) - len(line.lstrip(" "))
        mark = _MARK.match(line)
        if not line.strip() or _FENCE_OR_RULE.match(line):
            ended = bool(items or before)
        elif mark and not items:
            numbered, text_from = mark[1] is not None, mark.end()
            items.append([line[mark.end() :]])
            ended = False
        elif mark and (mark[1] is not None) == numbered and depth < text_from:
            if remarked:
                raise Unparseable("The list of constraints goes on after other text.")
            items.append([line[mark.end() :]])
            ended = False
        elif items and not remarked and (not ended or depth >= text_from):
            items[-1].append(line)
        elif items:
            remarked = True
        elif not ended:
            before.append(line)
    if not items and not _NOTHING.fullmatch("\n".join(before).strip()):
        raise Unparseable("The constraints are not numbered.")
    return ["\n".join(item) for item in items]


def _line(text: str) -> str:
    return " ".join(text.split())
