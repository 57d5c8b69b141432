"""Checks an answer in JSON, YAML or XML against a JSON Schema."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataInvalid, raised_as
from harness.records import Instance, Score
from harness.scoring import validators
from harness.scoring.extraction import BlockExtraction
from harness.scoring.validators import Draft, Format, Mode, schemas, score_document


class JsonSchemaChecker:
    """Passes an answer that is valid against a JSON Schema.

    Args:
        schema: The schema, or the path of a JSON or YAML file (.yaml, .yml) that contains it.
        format: Format of the answer: json, yaml or xml.
        mode: ``strict``, or ``paper`` to validate in the same way as ConCodeEval's authors.
        draft: The draft to assume for a schema without ``$schema``.
        extraction: How to find the answer in the reply (`harness.scoring.extraction`).
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool | str,
        format: Format = "json",
        mode: Mode = "strict",
        draft: Draft = "2020-12",
        extraction: str = "whole",
    ) -> None:
        self.extraction = BlockExtraction(extraction)
        with raised_as(ConfigError, "The checker 'json_schema': "):
            loaded = _load(schema) if isinstance(schema, str) else schema
            validators.validator(loaded, mode=mode, draft=draft)
        self.constrains = format == "json" and self.extraction.name == "whole"
        self.schema: dict[str, Any] | bool = loaded
        self._score = partial(score_document, schema=loaded, format=format, mode=mode, draft=draft)

    @cached_property
    def misspelt(self) -> str:
        """A sentence on the first keyword that is probably misspelt, or ""."""
        for keyword, meant in schemas.misspelt(self.schema).items():
            return (
                f"{keyword!r:.60} is no keyword of JSON Schema, so it has no effect; {meant!r} is."
            )
        return ""

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return whether the answer is valid, with violations of the schema as the reason.

        The score has no value if validation takes too long.

        Raises:
            Unparseable: If the reply contains no answer in the expected format.
        """
        return self._score(self.extraction.read(text))["valid"]


def _load(name: str) -> Any:
    try:
        text = Path(name).read_text("utf-8")
        return validators.read(text, "yaml" if name.endswith((".yaml", ".yml")) else "json")
    except (validators.UnparseableDocument, OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        remedy = "Give the path of a schema in JSON or YAML, or the schema itself."
        raise DataInvalid(f"The schema file {name!r}: {problem}.", remedy) from None


plugin = JsonSchemaChecker
