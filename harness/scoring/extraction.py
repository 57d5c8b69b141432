r"""Extracts the answer from a reply: a configured step before anything is checked.

By name (``extraction: fence``), for structured answers: docs/validators.md lists the names. A block
ends at the next fence wherever it stands, as in ConCodeEval. The name of a language after the
opening fence is not part of the answer. A reply without such a block raises `NoAnswerBlock`, which
is counted separately from an answer that cannot be parsed.

By pattern, number or key (``extract:``), for short answers:

    extract: {regex: ['answer is (\w+)', '^(\w+)$'], take: last, ignore_case: true}
    extract: {number: last}                              # first or last
    extract: {json: answer}                              # a key of a JSON object; a.b if nested

>>> extraction("fence").read("Here:\n```json\n[1]\n```")
'[1]\n'
>>> extraction({"number": "last"}, "task.extract").read("5 + 5 = 10")
'10'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

from harness.errors import ConfigError, Unparseable, nearest
from harness.scoring.patterns import Pattern, Take, answer_in, around_group, one_number

MOST_JSON_STARTS = 100
"""Brackets at which JSON is looked for: each attempt may read to the end of the reply."""
MOST_OBJECT_STARTS = 32
"""Braces at which a JSON object is looked for."""


class Extraction(Protocol):
    """A way to read the answer from a reply."""

    @property
    def expects(self) -> tuple[str, ...]:
        """Literal texts of which a prompt should contain one; empty if unknown."""
        ...

    def read(self, text: str) -> str:
        """Return the answer, or raise Unparseable or `harness.scoring.patterns.PatternTooSlow`."""
        ...

    def write(self, answer: str) -> str | None:
        """Return a reply from which `read` returns this answer, or None if unknown."""
        ...


class NoAnswerBlock(Unparseable):
    """The reply has no block of the kind asked for, as opposed to one that cannot be read."""

    kind: Literal["no answer block"] = "no answer block"

    def __init__(self, wanted: str) -> None:
        super().__init__(f"no answer block: {wanted}")


class BlockExtraction:
    """A block of the reply, by a name such as ``last_fence`` or ``tags:answer``."""

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
        """Return the block's text."""
        if not self._tags:
            return _BLOCKS[self._kind](text)
        start, end = self._tags
        _, found, rest = text.partition(start)
        if not found:
            raise NoAnswerBlock(f"there is no {start}")
        return rest.partition(end)[0]

    def write(self, answer: str) -> str:
        """Write a reply in which `read` finds this answer, for worked examples."""
        if self._tags:
            return f"{self._tags[0]}\n{answer}\n{self._tags[1]}"
        opening = "```\n" if self._kind in ("fence", "last_fence") else ""
        return f"{opening}{answer}" + ("\n```" if "fence" in self._kind else "")


_FENCE = re.compile(r"`{3,}")
_LANGUAGE = re.compile(r"([A-Za-z][\w+.#-]*)?[ \t]*(?:\r?\n|\Z)")
_FORMAT = re.compile(r"(?:json[5c]?|ya?ml|xml)(?=[\s{\[<\"]|\Z)[ \t]*\r?\n?", re.IGNORECASE)
_TAG_NAME = re.compile(r"[^\s<>\[\]/]+")


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


def _inside(block: str) -> str:
    """Return a block without the line that opens it."""
    if _FORMAT.fullmatch(block.strip()):  # ```yaml and nothing else: the name of a format
        return ""
    opening = _LANGUAGE.match(block)
    if opening and (not opening[1] or block[opening.end() :].strip()):
        return block[opening.end() :]
    format_name = _FORMAT.match(block)  # ```json {"a": 1}```
    rest = block[format_name.end() :] if format_name else ""
    return rest if rest.strip() else block


def _last_fence(text: str, *, first: bool = False) -> str:
    # An opening fence at the very end of a reply has not begun another block.
    blocks = [text[start:end] for start, end in _fences(text)]
    found = blocks[:1] if first else [block for block in blocks if block.strip()][-1:]
    if not found:
        raise NoAnswerBlock("there is no fence (```)" + ("" if first else " with a text"))
    return _inside(found[0])


_first_fence = partial(_last_fence, first=True)


def _open_fence(text: str) -> str:
    if text.lstrip().startswith("```"):  # the model has opened it again
        answer = _first_fence(text)
    else:
        answer = text.partition("```")[0]
        if format_name := _FORMAT.match(answer):
            answer = answer[format_name.end() :]
    if not answer.strip():
        raise NoAnswerBlock("nothing stands before the closing fence (```)")
    return answer


def _first_json(text: str) -> str:
    stripped = text.strip()
    if _json_end(stripped, 0) == len(stripped):
        return stripped
    starts = [found.start() for found in islice(re.finditer(r"[{\[]", text), MOST_JSON_STARTS)]
    for start in starts:
        if end := _json_end(text, start):
            return text[start:end]
    if not starts:
        raise NoAnswerBlock("there is no JSON object or list")
    return text[starts[0] :]  # broken JSON: the parser says where


def _json_end(text: str, start: int) -> int:
    """Return where the JSON value that begins here ends; 0 if none does."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (json.JSONDecodeError, RecursionError):
        return 0
    except ValueError:  # an integer of thousands of digits is JSON that Python does not convert
        return len(text)


_BLOCKS: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "fence": _first_fence,
    "last_fence": _last_fence,
    "open_fence": _open_fence,
    "json": _first_json,
}
_ENCLOSED = {"tags": ("<{}>", "</{}>"), "brackets": ("[{}]", "[/{}]")}


class Found(NamedTuple):
    """An answer, the index of the pattern that found it, and where its match begins."""

    answer: str
    pattern: int
    start: int


class RegexExtraction:
    """Patterns, of which the leftmost match counts (the rightmost for ``last``).

    At the same offset the pattern that is written first counts: they read like their alternation,
    and each may number its groups from 1.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        where: str,
        *,
        take: Take = "first",
        ignore_case: bool = False,
    ) -> None:
        self.patterns = tuple(Pattern(p, where, ignore_case=ignore_case) for p in patterns)
        self.take: Take = take

    @property
    def expects(self) -> tuple[str, ...]:
        """Return what precedes the group of each pattern; empty if unknown for any of them."""
        around = [around_group(pattern.pattern) for pattern in self.patterns]
        before = tuple(found.before.strip() for found in around if found)
        return before if len(before) == len(around) and all(before) else ()

    def find(self, text: str) -> Found | None:
        """Return the answer, or None; raises like `Pattern.find`."""
        found = [
            Found(answer_in(match).strip(), number, match.start())
            for number, pattern in enumerate(self.patterns)
            if (match := pattern.find(text, self.take)) is not None
        ]
        sign = 1 if self.take == "first" else -1
        return min(found, key=lambda one: sign * one.start, default=None)

    def read(self, text: str) -> str:
        """Return the first group that matched, or the whole match."""
        found = self.find(text)
        if found is not None and found.answer:
            return found.answer
        patterns = ", ".join(f"{pattern.pattern!r:.60}" for pattern in self.patterns)
        hint = f"after {self.expects[0]!r}" if self.expects else f"by {patterns}"
        raise Unparseable(f"No answer was found {hint}.")

    def write(self, answer: str) -> str | None:
        """Write the answer into the first pattern's literal text, if `read` then finds it."""
        if (around := around_group(self.patterns[0].pattern)) is None:
            return None
        text = f"{around.before}{answer}{around.after}"
        found = self.find(text)
        return text if found is not None and found.answer == answer.strip() else None


class NumberExtraction:
    """The first or last number of a text."""

    expects: tuple[str, ...] = ()

    def __init__(self, take: Take) -> None:
        self.take: Take = take

    def read(self, text: str) -> str:
        """Return the number, without currency and separators."""
        found = one_number(text, self.take)
        if found is None:
            raise Unparseable("The answer holds no number.")
        return format(found, "f") if abs(found.adjusted()) < 100 else str(found)

    def write(self, answer: str) -> str | None:
        """Return the answer itself, if it is a number."""
        return answer if one_number(answer, self.take) is not None else None


class JsonExtraction:
    """A value in the reply's JSON object; the key ``a.b`` is b of the object at a."""

    def __init__(self, key: str) -> None:
        self._path = key.split(".")
        self.expects: tuple[str, ...] = (self._path[-1],)

    def read(self, text: str) -> str:
        """Return the value: a string unchanged, anything else as JSON."""
        found: Any = json_object(text)
        for key in self._path:
            if not isinstance(found, dict) or key not in found:
                raise Unparseable(f"The JSON object has no {'.'.join(self._path)!r:.80}.")
            found = found[key]
        if isinstance(found, str):
            return found
        try:
            return json.dumps(found, ensure_ascii=False)
        except (ValueError, RecursionError):
            raise Unparseable("The JSON object's value is out of proportion.") from None

    def write(self, answer: str) -> str | None:
        """Write a JSON object that holds the answer."""
        found: Any = answer
        for key in reversed(self._path):
            found = {key: found}
        return json.dumps(found, ensure_ascii=False)


_KEYS: Mapping[str, tuple[str, ...]] = {"regex": ("take", "ignore_case"), "number": (), "json": ()}
"""How to extract, and the further keys that go with it."""


def extraction(raw: object, where: str = "extraction") -> Extraction:
    """Return the extraction of a run file, a name or a mapping, that messages call ``where``."""
    if isinstance(raw, str):
        return BlockExtraction(raw)
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where} must be a mapping.", "Write {regex: 'answer is (.+)'}.")
    kinds = [key for key in raw if key in _KEYS]
    if len(kinds) != 1:
        problem = f"has both {kinds[0]} and {kinds[1]}" if kinds else "does not say how to extract"
        raise ConfigError(f"{where} {problem}.", nearest(str(next(iter(raw), "")), _KEYS))
    (kind,) = kinds
    for key in raw:
        if key not in (kind, *_KEYS[kind]):
            known = (*_KEYS, *_KEYS[kind])
            raise ConfigError(f"{where}: {kind} has no {key!r:.60}.", nearest(str(key), known))
    value, ignore_case = raw[kind], raw.get("ignore_case", False)
    if kind == "json":
        if not isinstance(value, str) or not all(value.split(".")):
            raise ConfigError(f"{where}.json must be the name of a key.", "Write {json: answer}.")
        return JsonExtraction(value)
    place, take = ("number", value) if kind == "number" else ("take", raw.get("take", "first"))
    if take not in ("first", "last"):
        raise ConfigError(f"{where}.{place} must be first or last, not {take!r:.40}.")
    if kind == "number":
        return NumberExtraction(take)
    patterns = [value] if isinstance(value, str) else value
    if not (isinstance(patterns, list) and patterns and all(isinstance(p, str) for p in patterns)):
        raise ConfigError(f"{where}.regex must be a pattern or a list of them.")
    if not isinstance(ignore_case, bool):
        raise ConfigError(f"{where}.ignore_case must be true or false.")
    return RegexExtraction(patterns, f"{where}.regex", take=take, ignore_case=ignore_case)


_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)


def json_object(text: str) -> dict[str, Any]:
    """Return the first JSON object in the first fence of a reply, else the first one anywhere.

    One that has a key twice is refused.
    """
    fence = _FENCED.search(text)
    for candidate in (fence[1] if fence else text, text):
        for match in islice(re.finditer(r"\{", candidate), MOST_OBJECT_STARTS):
            try:
                found, _ = _DECODER.raw_decode(candidate, match.start())
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    raise Unparseable("The answer holds no JSON object.")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Unparseable(f"The key {name!r:.60} is twice in the JSON object.")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_constant=_no_constant)
