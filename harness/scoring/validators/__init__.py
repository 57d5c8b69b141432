"""Validators of structured answers: read a document, then validate it against a JSON Schema.

Hostile documents and schemas take bounded time and memory. No file or network is ever accessed.
``$schema`` names a schema's draft, formats are asserted, and numbers are exact. Documents are JSON.
Plug-ins bring other formats (``document_formats``) and other ways to validate
(``schema_validators``).

>>> read("[1, 2.50]")
[1, 2.5]
>>> validator({"type": "integer", "maximum": 3}).violations(4)[0].message
'4 is more than 3'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from harness.errors import DataInvalid
from harness.plugin_loader import Kind
from harness.records import Score
from harness.scoring.validators import schemas
from harness.scoring.validators.limits import UnparseableDocument, read
from harness.scoring.validators.schemas import DRAFTS, Draft, Undecided, Violation
from harness.scoring.validators.strict import StrictValidator

__all__ = ["DRAFTS", "STRICT", "Draft", "Undecided", "UnparseableDocument", "Validator"]
__all__ += ["Violation", "cached_validator", "read", "score_document", "validator"]

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
