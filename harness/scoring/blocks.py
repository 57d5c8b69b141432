"""Extracts a block of a reply that holds a structured answer, such as a fenced one.

A fenced block ends at the next fence of at least the same length, wherever it is, as in
ConCodeEval.

>>> BlockExtraction("tags:answer").read("So <answer>5</answer>")
'5'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Literal

from harness.errors import ConfigError, Unparseable, nearest

MOST_JSON_STARTS = 100  # maximum number of brackets tried as the start of JSON


class NoAnswerBlock(Unparseable):
    """The reply has no block of the requested kind."""

    kind: Literal["no answer block"] = "no answer block"

    def __init__(self, problem: str) -> None:
        super().__init__(f"no answer block: {problem}")


class BlockExtraction:
    """An extraction of a named kind of block from a reply, such as ``last_fence``."""

    expects: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self._kind, colon, tag = name.partition(":")
        self._tags = tuple(form.format(tag) for form in _ENCLOSED.get(self._kind, ()))
        if self._tags and not _TAG_NAME.fullmatch(tag):
            problem = f"The extraction {name!r} needs the name of its tag."
            raise ConfigError(problem, f"Write {self._kind}:answer.")
        if not self._tags and (self._kind not in _BLOCKS or colon):
            names = [*_BLOCKS, *(f"{kind}:NAME" for kind in _ENCLOSED)]
            raise ConfigError(f"There is no extraction {name!r}.", nearest(name, names))

    def read(self, text: str) -> str:
        """Return the text of the block.

        Raises:
            NoAnswerBlock: If the reply has no such block.
        """
        if not self._tags:
            return _BLOCKS[self._kind](text)
        start, end = self._tags
        _, opening, rest = text.partition(start)
        if not opening:
            raise NoAnswerBlock(f"there is no {start}")
        return rest.partition(end)[0]

    def write(self, answer: str) -> str:
        """Return a reply from which `read` extracts this answer, for a prompt's worked examples."""
        if self._tags:
            return f"{self._tags[0]}\n{answer}\n{self._tags[1]}"
        opening = "```\n" if self._kind in ("fence", "last_fence") else ""
        return f"{opening}{answer}" + ("\n```" if "fence" in self._kind else "")


_BLOCK = re.compile(r"(`{3,}+)(.*?)(?:(?<!`)\1`*+|\Z)", re.DOTALL)
"""Matches a fenced block, possibly unclosed at the end of the text, in linear time."""
_FENCE = re.compile("`{3,}")
_LANGUAGE = re.compile(r"([A-Za-z][\w+.#-]*)?[ \t]*(?:\r?\n|\Z)")
_FORMAT = re.compile(r"\A(?:json[5c]?|ya?ml|xml)(?=[\s{\[<\"]|\Z)[ \t]*\r?\n?", re.IGNORECASE)
_TAG_NAME = re.compile(r"[^\s<>\[\]/]+")


def _inside(block: str) -> str:
    """Return a block's text without the language or format named after the opening fence."""
    if _FORMAT.fullmatch(block.strip()):  # only the name of a format, as in ```yaml
        return ""
    opening = _LANGUAGE.match(block)
    if opening and (not opening[1] or block[opening.end() :].strip()):
        return block[opening.end() :]
    rest = _FORMAT.sub("", block)  # ```json {"a": 1}```
    return rest if rest.strip() else block


def _first_fence(text: str) -> str:
    if not (block := _BLOCK.search(text)):
        raise NoAnswerBlock("there is no fence (```)")
    return _inside(block[2])


def _last_fence(text: str) -> str:
    # An opening fence at the very end of a reply starts no block.
    if not (blocks := [block for _, block in _BLOCK.findall(text) if block.strip()]):
        raise NoAnswerBlock("no fence (```) contains text")
    return _inside(blocks[-1])


def _open_fence(text: str) -> str:
    before, _, _ = text.partition("```")
    introduced = before.rstrip().endswith(":") and len(_FENCE.findall(text)) % 2 == 0
    if before != text and (introduced or not before.strip()):  # the model has opened a fence again
        answer = _first_fence(text)
    else:
        answer = _FORMAT.sub("", before)
    if not answer.strip():
        raise NoAnswerBlock("there is no text before the closing fence (```)")
    return answer


def _first_json(text: str) -> str:
    stripped = text.strip()
    if _json_end(stripped, 0) == len(stripped):
        return stripped
    starts = [bracket.start() for bracket in islice(re.finditer(r"[{\[]", text), MOST_JSON_STARTS)]
    for start in starts:
        if end := _json_end(text, start):
            return text[start:end]
    if not starts:
        raise NoAnswerBlock("there is no JSON object or list")
    return text[starts[0] :]  # broken JSON: the parser reports where


def _json_end(text: str, start: int) -> int:
    """Return the end offset of the JSON value that begins at ``start``, or 0 if there is none."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (json.JSONDecodeError, RecursionError):
        return 0
    except ValueError:  # valid JSON, but Python does not convert integers of thousands of digits
        return len(text)


_BLOCKS: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "fence": _first_fence,
    "last_fence": _last_fence,
    "open_fence": _open_fence,
    "json": _first_json,
}
_ENCLOSED = {"tags": ("<{}>", "</{}>"), "brackets": ("[{}]", "[/{}]")}
