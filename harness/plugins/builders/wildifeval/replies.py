"""Parses models' replies: a decomposed message, a list of names, or a name chosen from a list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from harness.errors import Unparseable
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES, OTHER, named

LONGEST_CONSTRAINT = 1_000  # characters; a longer text is not a single constraint
LONGEST_NAME = 60

_HEADED = re.compile(r"^[ \t#*]{0,8}((?:\w{1,40} )?)constraints?[ \t*]{0,4}:", re.I | re.M)
_OPENED = re.compile(r"(?:\w{1,40} )?task[ \t*]{0,4}:\s*\Z", re.I)
_MARK = re.compile(r"[ *]{0,8}(?:(\d{1,3}[.)])|[-*•]) +")
_FENCE_OR_RULE = re.compile(r" *(?:```|~~~|(?:- *){3,}$|(?:\* *){3,}$|(?:_ *){3,}$)")
_NOTHING = re.compile(r"\W*(?:none|nothing|n/a|no (?:context|constraints))?\W*", re.I)
_LISTED = re.compile(r"^\W{0,8}(\d{1,3})[.):\]][ \t]{0,4}(.{1,200})", re.M)
_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,3}[.):]|[-*•])[ \t]+(.{1,200})$", re.M)
_PLAIN = re.compile(r"[^.:;!?\n]{1,60}")
_NUMBER = re.compile(r"\W{0,4}(\d{1,3})\W{0,4}")
_PREFIX = re.compile(r"\W{0,4}\d{1,3}[.):]\s{0,4}")
_OTHER = re.compile(r"\W{0,4}other\b\W{0,8}(.{0,200})", re.I | re.S)


class Decomposition(Struct, frozen=True):
    """The parts of a message: its task without constraints, context (or "") and constraints."""

    task: str
    context: str
    constraints: tuple[str, ...]


def decomposition(reply: str, prompt: str = "") -> Decomposition:
    """Return the parts of a message that a model's reply lists under headings.

    The prompt determines the headings, such as "Translated Constraints:".

    Raises:
        Unparseable: If the constraints are missing, unreadable, too long or not the last part.
    """
    word = _HEADED.findall(prompt)[-1] if _HEADED.search(prompt) else ""
    begin = rf"(?:^[ \t#*]{{0,8}}|\b){word}" if word else r"^[ \t#*]{0,8}"
    header = rf"{begin}(task|context|constraints?)[ \t*]{{0,4}}:[ \t*]{{0,4}}"
    opened = _OPENED.search(prompt)
    parts = re.split(header, f"{opened[0] if opened else ''} {reply}", flags=re.I | re.M)
    found: dict[str, str] = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        if "constraint" in found:
            raise Unparseable("The constraints are not the last part of the reply.")
        kind = name.lower().removesuffix("s")
        found[kind] = found.get(kind, "").strip() or text
    if "constraint" not in found:
        raise Unparseable("The reply has no constraints in it.")
    constraints: dict[str, str] = {}
    for text in _items(found["constraint"]):
        if len(text) > LONGEST_CONSTRAINT:
            raise Unparseable(f"A constraint of more than {LONGEST_CONSTRAINT:,} characters.")
        if not _NOTHING.fullmatch(text):
            constraints.setdefault(sameness(text), text)
    task, context = (_line(found.get(part, "")) for part in ("task", "context"))
    context = "" if _NOTHING.fullmatch(context) else context
    return Decomposition(task, context, tuple(constraints.values()))


def sameness(constraint: str) -> str:
    """Return a constraint in a form for comparisons, without capitals, extra spaces or end mark."""
    return " ".join(constraint.casefold().split()).rstrip(".!;, ")


def _items(listed: str) -> list[str]:
    """Return the items of a numbered or bulleted list, each as one line, without later remarks."""
    items: list[str] = []
    before: list[str] = []
    numbered, text_from = False, 0
    ended = remarked = False
    for line in listed.expandtabs(4).split("\n"):
        depth = len(line) - len(line.lstrip(" "))
        mark = _MARK.match(line)
        if not line.strip() or _FENCE_OR_RULE.match(line):
            ended = bool(items or before)
        elif mark and (not items or ((mark[1] is not None) == numbered and depth < text_from)):
            if remarked:
                raise Unparseable("The list of constraints continues after other text.")
            if not items:
                numbered, text_from = mark[1] is not None, mark.end()
            items.append(line[mark.end() :])
            ended = False
        elif items and not remarked and (not ended or depth >= text_from):
            items[-1] += f" {line}"
        elif items:
            remarked = True
        elif not ended:
            before.append(line)
    if not items and not _NOTHING.fullmatch("\n".join(before).strip()):
        raise Unparseable("The constraints are not numbered.")
    return [_line(item) for item in items]


def _line(text: str) -> str:
    return " ".join(text.split())


def numbered_names(reply: str) -> list[str]:
    """Return the distinct short names in a reply: list items or, without a list, lines of names."""
    found: dict[str, str] = {}
    lines = [line for line in reply.splitlines() if line.strip()]
    plain = len(lines) > 1 and all(map(_PLAIN.fullmatch, lines))
    for item in _ITEM.findall(reply) or (lines if plain else []):
        name = _bare(_head(item))
        if name and len(name) <= LONGEST_NAME:
            found.setdefault(name.casefold(), name)
    return list(found.values())


def numbering(prompt: str, names: Iterable[str]) -> dict[int, str]:
    """Map the numbers in a prompt's list to the names listed, or to "" for an ambiguous number."""
    of = {_letters(name): name for name in names}
    found: dict[int, str] = {}
    for number, item in _LISTED.findall(prompt):
        if name := of.get(_letters(_head(item))):
            found[int(number)] = name if found.get(int(number), name) == name else ""
    return found


def chosen(reply: str, names: Sequence[str], numbers: Mapping[int, str]) -> str:
    """Return the name that a reply's first line gives, directly or by number ("" if none)."""
    line = first_line(reply)
    if number := _NUMBER.fullmatch(line):
        return numbers.get(int(number[1]), "")
    wanted = _letters(_PREFIX.sub("", line, count=1))
    return next((name for name in names if _letters(name) == wanted), "")


def category(reply: str, numbers: Mapping[int, str]) -> tuple[str, str] | None:
    """Return the category that a reply's first line names, by name or number, or None.

    The result is the name and, for the category Other, the model's title for it (otherwise "").
    """
    line = _PREFIX.sub("", first_line(reply), count=1)
    name = chosen(reply, list(CATEGORIES), numbers)
    if not name and (other := _OTHER.fullmatch(line)):
        return OTHER, _bare(other[1])[:LONGEST_NAME]
    name = name or named(_bare(line))
    return (name, "") if name in CATEGORIES else None


def _head(item: str) -> str:
    return re.split(r":\s|\s[-\u2013\u2014]\s", f"{item} ", maxsplit=1)[0]


def _bare(name: str) -> str:
    return _line(name).strip("*_`\"' .:;")


def first_line(reply: str) -> str:
    """Return a reply's first non-blank line (empty if all lines are blank)."""
    return next((line for line in reply.splitlines() if line.strip()), "")


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
