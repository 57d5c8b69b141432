"""Structured answers: extract a block from a reply, read it, and validate it against a JSON Schema.

A fenced block ends at the next fence of at least the same length, wherever it is, as in
ConCodeEval.

Hostile documents and schemas take bounded time and memory. No file or network is ever accessed.
``$schema`` names a schema's draft, formats are asserted, and numbers are exact. Documents are JSON.
Plug-ins bring other formats (``document_formats``) and other ways to validate
(``schema_validators``).

>>> BlockExtraction("tags:answer").read("So <answer>5</answer>")
'5'
>>> read("[1, 2.50]")
[1, 2.5]
>>> validator({"type": "integer", "maximum": 3}).violations(4)[0].message
'4 is more than 3'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, Protocol

from harness.errors import ConfigError, DataInvalid, Unparseable, suggest_name
from harness.plugin_loader import Kind
from harness.records import Score
from harness.scoring.validators import schemas
from harness.scoring.validators.limits import UnparseableDocument, read
from harness.scoring.validators.schemas import DRAFTS, Draft, Undecided, Violation
from harness.scoring.validators.strict import StrictValidator

__all__ = ["DRAFTS", "STRICT", "BlockExtraction", "Draft", "NoAnswerBlock", "Undecided"]
__all__ += ["UnparseableDocument", "Validator", "Violation", "cached_validator", "read"]
__all__ += ["score_document", "validator"]

STRICT = "strict"  # the mode of the core's own validator

MAX_CACHED_SCHEMAS = 2_048  # maximum number of compiled schemas to keep, at 10 to 100 KB each


class Validator(Protocol):
    """A schema compiled for validation."""

    def read(self, text: str, format: str = "json") -> Any:
        """Parse a document, and return its value.

        Raises:
            UnparseableDocument: If the document is not in the format, or exceeds a limit.
        """

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """Return at least one of a value's violations, or () if it is valid.

        Raises:
            Undecided: If validation takes too long, or the engine fails.
            DataInvalid: If the validator detects only now that the schema is invalid.
        """


def validator(schema: Any, *, mode: str = STRICT, draft: Draft = "2020-12") -> Validator:
    """Return a validator for a schema. The schema is compiled once and cached.

    Args:
        schema: The JSON Schema.
        mode: How to validate: ``strict``, or a mode that a plug-in brings.
        draft: In mode ``strict``, the draft to assume for a schema without ``$schema``.

    Raises:
        ConfigError: If no plug-in brings the mode.
        DataInvalid: If ``schema`` is not a schema. In mode ``strict``, also if it breaks the rules
            of its draft or has a reference that leads outside the schema.
    """
    return cached_validator(
        schema, draft if mode == STRICT else Kind("schema_validators").load(mode)
    )


def cached_validator(schema: Any, engine: Draft | Callable[[Any], Validator]) -> Validator:
    """Return the validator for a schema, from the cache if the schema was compiled before.

    Args:
        schema: The JSON Schema.
        engine: A function that builds the validator, or the draft to assume for a schema without
            ``$schema``, which the strict validator then validates.

    Raises:
        DataInvalid: If ``schema`` cannot be written as JSON, or the validator refuses it.
    """
    try:
        schema_json = json.dumps(schema, default=lambda value: {"\0": repr(value)})
    except (TypeError, ValueError, RecursionError):
        schemas.check_schema(schema)  # reports what is wrong with it
        raise DataInvalid("This is not a JSON Schema: it cannot be written as JSON.") from None
    return _build_validator(_CacheKey(schema_json, engine, schema))


@dataclass(frozen=True)
class _CacheKey:
    schema_json: str
    engine: Draft | Callable[[Any], Validator]
    schema: Any = field(compare=False)


@lru_cache(MAX_CACHED_SCHEMAS)
def _build_validator(key: _CacheKey) -> Validator:
    if not isinstance(key.engine, str):
        return key.engine(key.schema)
    return StrictValidator(key.schema, schemas.schema_draft(key.schema, key.engine))


def score_document(
    text: str,
    schema: Any,
    *,
    format: str = "json",
    mode: str = STRICT,
    draft: Draft = "2020-12",
) -> Mapping[str, Score]:
    """Check a document against a JSON Schema.

    Args:
        text: The document.
        schema: The JSON Schema.
        format: ``json``, or a format that a plug-in brings.
        mode: How to validate: ``strict``, or a mode that a plug-in brings.
        draft: In mode ``strict``, the draft to assume for a schema without ``$schema``.

    Returns:
        The score ``valid``: True or False, or no value if validation takes too long or the engine
        fails.

    Raises:
        UnparseableDocument: If the document cannot be read.
        DataInvalid: If the schema is invalid.
        ConfigError: If no plug-in brings the format or the mode.
    """
    schema_validator = validator(schema, mode=mode, draft=draft)
    value = schema_validator.read(text, format)
    try:
        return {"valid": schemas.score_violations(schema_validator.violations(value))}
    except Undecided as error:
        return {"valid": Score(value=None, reason=str(error)[: schemas.MAX_REASON_CHARS])}


# Blocks of replies

MAX_JSON_STARTS = 100  # maximum number of brackets tried as the start of JSON


class NoAnswerBlock(Unparseable):
    """The reply has no block of the requested kind."""

    kind: Literal["no answer block"] = "no answer block"

    def __init__(self, problem: str) -> None:
        super().__init__(f"no answer block: {problem}")


class BlockExtraction:
    """An extraction of a named kind of block from a reply, such as ``last_fence``."""

    announcements: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self._kind, colon, tag = name.partition(":")
        self._tags = tuple(form.format(tag) for form in _ENCLOSING_TAGS.get(self._kind, ()))
        if self._tags and not _TAG_NAME.fullmatch(tag):
            problem = f"The extraction {name!r} needs the name of its tag."
            raise ConfigError(problem, f"Write {self._kind}:answer.")
        if not self._tags and (self._kind not in _BLOCK_READERS or colon):
            names = [*_BLOCK_READERS, *(f"{kind}:NAME" for kind in _ENCLOSING_TAGS)]
            raise ConfigError(f"There is no extraction {name!r}.", suggest_name(name, names))

    def read(self, text: str) -> str:
        """Return the text of the block.

        Raises:
            NoAnswerBlock: If the reply has no such block.
        """
        if not self._tags:
            return _BLOCK_READERS[self._kind](text)
        opening, closing = self._tags
        _, separator, remainder = text.partition(opening)
        if not separator:
            raise NoAnswerBlock(f"there is no {opening}")
        return remainder.partition(closing)[0]

    def write(self, answer: str) -> str:
        """Return a reply from which `read` extracts this answer, for a prompt's worked examples."""
        if self._tags:
            return f"{self._tags[0]}\n{answer}\n{self._tags[1]}"
        opening = "```\n" if self._kind in ("fence", "last_fence") else ""
        return f"{opening}{answer}" + ("\n```" if "fence" in self._kind else "")


_FENCED_BLOCK = re.compile(r"(`{3,}+)(.*?)(?:(?<!`)\1`*+|\Z)", re.DOTALL)
"""Matches a fenced block, possibly unclosed at the end of the text, in linear time."""
_FENCE = re.compile("`{3,}")
_LANGUAGE = re.compile(r"([A-Za-z][\w+.#-]*)?[ \t]*(?:\r?\n|\Z)")
_FORMAT = re.compile(r"\A(?:json[5c]?|ya?ml|xml)(?=[\s{\[<\"]|\Z)[ \t]*\r?\n?", re.IGNORECASE)
_TAG_NAME = re.compile(r"[^\s<>\[\]/]+")


def _block_content(block: str) -> str:
    """Return a block's text without the language or format named after the opening fence."""
    if _FORMAT.fullmatch(block.strip()):  # only the name of a format, as in ```yaml
        return ""
    opening = _LANGUAGE.match(block)
    if opening and (not opening[1] or block[opening.end() :].strip()):
        return block[opening.end() :]
    content = _FORMAT.sub("", block)  # ```json {"a": 1}```
    return content if content.strip() else block


def _read_first_fence(text: str) -> str:
    if not (block := _FENCED_BLOCK.search(text)):
        raise NoAnswerBlock("there is no fence (```)")
    return _block_content(block[2])


def _read_last_fence(text: str) -> str:
    # An opening fence at the very end of a reply starts no block.
    if not (blocks := [block for _, block in _FENCED_BLOCK.findall(text) if block.strip()]):
        raise NoAnswerBlock("no fence (```) contains text")
    return _block_content(blocks[-1])


def _read_open_fence(text: str) -> str:
    before, _, _ = text.partition("```")
    is_introduced = before.rstrip().endswith(":") and len(_FENCE.findall(text)) % 2 == 0
    if before != text and (
        is_introduced or not before.strip()
    ):  # the model has opened a fence again
        answer = _read_first_fence(text)
    else:
        answer = _FORMAT.sub("", before)
    if not answer.strip():
        raise NoAnswerBlock("there is no text before the closing fence (```)")
    return answer


def _read_first_json(text: str) -> str:
    stripped = text.strip()
    if _json_end(stripped, 0) == len(stripped):
        return stripped
    starts = [bracket.start() for bracket in islice(re.finditer(r"[{\[]", text), MAX_JSON_STARTS)]
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


_BLOCK_READERS: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "fence": _read_first_fence,
    "last_fence": _read_last_fence,
    "open_fence": _read_open_fence,
    "json": _read_first_json,
}
_ENCLOSING_TAGS = {"tags": ("<{}>", "</{}>"), "brackets": ("[{}]", "[/{}]")}
