"""Where in a reply the answer is: a configured step before anything is parsed.

=================  ==============================================================================
``whole``          the reply as it stands
``fence``          the first block between ``` and ```; without an end, to the end of the reply
``last_fence``     the last such block
``open_fence``     the prompt has opened the block: from the start of the reply to its first ```
``tags:NAME``      from the first ``<NAME>`` to ``</NAME>``; without an end, to the end
``brackets:NAME``  the same with ``[NAME]`` and ``[/NAME]``
``json``           the first object or list that is JSON; of a reply that is all JSON, the whole
=================  ==============================================================================

A block ends at the next fence wherever it stands, as ConCodeEval's authors have it. The word of a
language after the opening fence is no part of the answer. A reply without the block asked for
raises `NoAnswerBlock`, which is counted apart from one that cannot be parsed.

>>> Extraction("fence").of("Here:\\n```json\\n[1]\\n```")
'[1]\\n'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Literal

from harness.errors import ConfigError, Unparseable, nearest

MOST_STARTS = 100
"""Brackets at which JSON is looked for: each try may read to the end of the reply."""

_FENCE = re.compile(r"`{3,}")
_LANGUAGE = re.compile(r"([A-Za-z][\w+.#-]*)?[ \t]*(?:\r?\n|\Z)")
_FORMAT = re.compile(r"(?:json[5c]?|ya?ml|xml)(?=[\s{\[<\"]|\Z)[ \t]*\r?\n?", re.IGNORECASE)
_NAME = re.compile(r"[^\s<>\[\]/]+")


class NoAnswerBlock(Unparseable):
    """The reply has no block of the kind asked for.

    kind: tells it from an answer that is there and cannot be read
        (`harness.scoring.validators.Unreadable` has the others).
    """

    kind: Literal["no answer block"] = "no answer block"

    def __init__(self, wanted: str) -> None:
        super().__init__(f"no answer block: {wanted}")


class Extraction:
    """One way to find the answer, by the name that a run file uses.

    Raises: ConfigError for an unknown name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        way, colon, argument = name.partition(":")
        if way in _ENCLOSED:
            if not _NAME.fullmatch(argument):
                raise ConfigError(
                    f"The extraction {name!r} needs the name of its tag.", f"Write {way}:answer."
                )
            start, end = (form.format(argument) for form in _ENCLOSED[way])
            self._find: Callable[[str], str] = lambda text: _between(text, start, end)
        elif way in _WAYS and not colon:
            self._find = _WAYS[way]
        else:
            names = [*_WAYS, *(f"{way}:NAME" for way in _ENCLOSED)]
            raise ConfigError(f"There is no extraction {name!r}.", nearest(name, names))

    def of(self, text: str) -> str:
        """The answer in a reply.

        Raises: NoAnswerBlock.
        """
        return self._find(text)

    def reply(self, answer: str) -> str:
        """A reply of which `of` finds this answer, for worked examples."""
        way, _, argument = self.name.partition(":")
        if way in _ENCLOSED:
            start, end = (form.format(argument) for form in _ENCLOSED[way])
            return f"{start}\n{answer}\n{end}"
        if way in ("fence", "last_fence"):
            return f"```\n{answer}\n```"
        return f"{answer}\n```" if way == "open_fence" else answer


def extract(text: str, extraction: str) -> str:
    """The answer in a reply, by the extraction's name.

    Raises: NoAnswerBlock; ConfigError for an unknown name.

    >>> extract("<answer>5</answer>", "tags:answer")
    '5'
    """
    return Extraction(extraction).of(text)


def _fences(text: str) -> list[tuple[int, int]]:
    """Start and end of each block; an open one ends with the text."""
    blocks, at = [], 0
    while opening := _FENCE.search(text, at):
        ticks, start = opening[0], opening.end()
        end = text.find(ticks, start)
        if end < 0:
            blocks.append((start, len(text)))
            break
        blocks.append((start, end))
        closing = _FENCE.match(text, end)
        at = closing.end() if closing else end
    return blocks


def _inside(text: str, start: int, end: int) -> str:
    """A block without the line that opens it."""
    block = text[start:end]
    if _FORMAT.fullmatch(block.strip()):  # ```yaml and nothing more: the name of a format
        return ""
    opening = _LANGUAGE.match(block)
    if opening and (not opening[1] or block[opening.end() :].strip()):
        return block[opening.end() :]
    named = _FORMAT.match(block)  # ```json {"a": 1}```
    return block[named.end() :] if named and block[named.end() :].strip() else block


def _first_fence(text: str) -> str:
    for start, end in _fences(text):
        return _inside(text, start, end)
    raise NoAnswerBlock("there is no fence (```)")


def _last_fence(text: str) -> str:
    # A reply that ends in an opening fence and nothing more has not begun another block.
    for start, end in reversed(_fences(text)):
        if text[start:end].strip():
            return _inside(text, start, end)
    raise NoAnswerBlock("there is no fence (```) with a text")


def _open_fence(text: str) -> str:
    if text.lstrip().startswith("```"):  # the model has opened it once more
        answer = _first_fence(text)
    else:
        answer = text.partition("```")[0]
        named = _FORMAT.match(answer)
        answer = answer[named.end() :] if named else answer
    if not answer.strip():
        raise NoAnswerBlock("nothing stands before the closing fence (```)")
    return answer


def _between(text: str, start: str, end: str) -> str:
    _, found, rest = text.partition(start)
    if not found:
        raise NoAnswerBlock(f"there is no {start}")
    return rest.partition(end)[0]


def _json(text: str) -> str:
    decoder = json.JSONDecoder()
    stripped = text.strip()
    if _decodes(decoder, stripped, 0) == len(stripped):
        return stripped
    starts = [found.start() for found in islice(_OPEN.finditer(text), MOST_STARTS)]
    for start in starts:
        end = _decodes(decoder, text, start)
        if end:
            return text[start:end]
    if not starts:
        raise NoAnswerBlock("there is no JSON object or list")
    return text[starts[0] :]  # broken JSON: for the parser to say where


_OPEN = re.compile(r"[{\[]")


def _decodes(decoder: json.JSONDecoder, text: str, start: int) -> int:
    """Where the JSON value that begins here ends; 0 where none does."""
    try:
        return decoder.raw_decode(text, start)[1]
    except RecursionError:
        return 0
    except ValueError as error:
        # An integer of thousands of digits is JSON that Python does not convert.
        return 0 if isinstance(error, json.JSONDecodeError) else len(text)


_WAYS: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "fence": _first_fence,
    "last_fence": _last_fence,
    "open_fence": _open_fence,
    "json": _json,
}
_ENCLOSED = {"tags": ("<{}>", "</{}>"), "brackets": ("[{}]", "[/{}]")}
EXTRACTIONS = (*_WAYS, *(f"{way}:NAME" for way in _ENCLOSED))
"""The names, for messages and documentation."""
