"""Validators of structured answers: read a document, then validate it against a JSON Schema.

Hostile documents and schemas take bounded time and memory. No file or network is ever accessed.
Mode ``strict`` (the default) follows the standards: ``$schema`` names the draft, formats are
asserted and numbers are exact. Mode ``paper`` gives the verdicts of ConCodeEval's authors: it reads
with ``json.loads``, ``yaml.safe_load`` and ``xmltodict.parse`` (NaN is a number, and the last of
two equal keys counts), and validates with Draft 7 without formats. `validator` also has the engine
``official``, with JSONSchemaBench's verdicts.

>>> read("a: no", "yaml"), read("a: no", "yaml", mode="paper")
({'a': 'no'}, {'a': False})
>>> validator({"type": "integer", "maximum": 3}).violations(4)[0].message
'4 is more than 3'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

from harness.errors import DataInvalid
from harness.records import Score
from harness.scoring.validators import json_text, limits, schemas, xml_text, yaml_text
from harness.scoring.validators.limits import UnparseableDocument, third, tokens
from harness.scoring.validators.schemas import DRAFTS, Draft, Undecided, Violation

__all__ = ["DRAFTS", "FORMATS", "Draft", "Engine", "Format", "Mode", "Undecided"]
__all__ += ["UnparseableDocument"]
__all__ += ["Validator", "Violation", "locate", "read", "render", "score_document", "third"]
__all__ += ["validator"]

Format = Literal["json", "yaml", "xml"]
FORMATS: tuple[Format, ...] = ("json", "yaml", "xml")
Mode = Literal["strict", "paper"]
Engine = Literal["strict", "paper", "official"]

MOST_COMPILED = 2_048  # maximum number of compiled schemas to keep, at 10 to 100 KB each

_MODULES: dict[Format, Any] = {"json": json_text, "yaml": yaml_text, "xml": xml_text}


def read(text: str, format: Format = "json", *, mode: Mode = "strict", schema: Any = True) -> Any:
    """Return the value of a document.

    In mode ``strict``, ``schema`` determines the types of XML elements that do not state a type.

    Raises:
        UnparseableDocument: If the document is not in the format, or exceeds a limit.
    """
    if mode == "strict":
        return xml_text.read(text, schema) if format == "xml" else _MODULES[format].read(text)
    limits.check_length(text)
    value = _MODULES[format].read_as_paper(text)
    limits.check_size(value)
    return value


def render(value: Any, format: Format = "json", *, indent: int | None = 4) -> str:
    """Return a value as a document in the given format. `read` restores the value exactly.

    If ``indent`` is None, JSON is written on one line.

    Raises:
        DataInvalid: If the value is not JSON, exceeds the limits, or has a character that XML does
            not allow.
    """
    try:
        limits.check_json(value)
        if format == "json":
            return json_text.write(value, indent)
        return xml_text.write(value) if format == "xml" else yaml_text.write(value)
    except UnparseableDocument as error:
        raise DataInvalid(f"The value cannot be written as {format.upper()}: {error}.") from None


def locate(
    text: str, format: Format, path: str, *, mode: Mode = "strict"
) -> tuple[int, int] | None:
    """Return the start and end offsets of the value at a JSON pointer, or None if not found.

    A YAML value includes its tag and anchor, and an alias is located at its anchor. An XML value is
    an element with its tags. In ``paper`` mode, pointers into XML begin with the root element.
    """
    try:
        limits.check_length(text)
        found = tokens(path)
        root = _MODULES[format].tree(text, paper=mode == "paper")
        node = None if found is None else root.at(found)
    except (UnparseableDocument, ValueError, RecursionError):
        return None
    if node is None or format != "xml":
        return (node.start, node.end) if node else None
    source, head = text.strip().encode(), len(text) - len(text.lstrip())
    return tuple(head + len(source[:at].decode()) for at in (node.start, node.end))  # type: ignore[return-value]


class Validator(Protocol):
    """A schema compiled for validation."""

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """Return violations in a value, or () if it is valid. Engines need not list all of them.

        Raises:
            Undecided: If validation takes too long, or the engine fails.
            DataInvalid: In mode ``paper``, if a reference leads nowhere or a pattern is invalid.
        """


def validator(schema: Any, *, mode: Engine = "strict", draft: Draft = "2020-12") -> Validator:
    """Return a validator for a schema. The schema is compiled once and cached.

    Args:
        schema: The JSON Schema.
        mode: How to validate: ``strict``, ``paper`` (like ConCodeEval's authors) or ``official``
            (like lm-eval).
        draft: In mode ``strict``, the draft to assume for a schema without ``$schema``.

    Raises:
        DataInvalid: If ``schema`` is not a schema. In mode ``strict``, also if it breaks the rules
            of its draft or has a reference that leads outside the schema. (Mode ``official``
            accepts such a schema, but then all documents, or all that are checked against the
            reference, are invalid.)
    """
    try:
        written = json.dumps(schema, default=lambda value: {"\0": repr(value)})
    except (TypeError, ValueError, RecursionError):
        schemas.check_schema(schema)  # reports what is wrong with it
        raise DataInvalid("This is not a JSON Schema: it cannot be written as JSON.") from None
    return _compiled(_Key(written, draft if mode == "strict" else mode, schema))


@dataclass(frozen=True)
class _Key:
    written: str
    engine: Draft | Literal["paper", "official"]  # a draft stands for the strict engine
    schema: Any = field(compare=False)


@lru_cache(MOST_COMPILED)
def _compiled(key: _Key) -> Validator:
    if key.engine == "paper":
        from harness.scoring.validators.paper import PaperValidator  # takes 100 ms, rarely needed

        return PaperValidator(key.schema)
    if key.engine == "official":
        from harness.scoring.validators.official import OfficialValidator

        return OfficialValidator(key.schema)
    from harness.scoring.validators.strict import StrictValidator

    return StrictValidator(key.schema, schemas.draft_of(key.schema, key.engine))


def score_document(
    text: str,
    schema: Any,
    *,
    format: Format = "json",
    mode: Mode = "strict",
    draft: Draft = "2020-12",
) -> Mapping[str, Score]:
    """Check a document against a JSON Schema.

    The score ``valid`` is True or False. It has no value if validation takes too long, or if the
    engine fails.

    Raises:
        UnparseableDocument: If the document cannot be read.
        DataInvalid: If the schema is invalid.
    """
    compiled = validator(schema, mode=mode, draft=draft)
    value = read(text, format, mode=mode, schema=schema)
    try:
        return {"valid": schemas.score(compiled.violations(value))}
    except Undecided as error:
        return {"valid": Score(value=None, reason=str(error)[: schemas.LONGEST_REASON])}
