"""Checks a structured answer against a JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataInvalid, nearest, raised_as
from harness.plugin_loader import Kind
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring import validators
from harness.scoring.extraction import BlockExtraction
from harness.scoring.validators import STRICT, Draft, schemas, score_document


class JsonSchemaChecker(Checker):
    """Passes an answer that is valid against a JSON Schema.

    Args:
        schema: The schema, or the path of a JSON or YAML file (.yaml, .yml) that contains it.
        format: Format of the answer: json, or one that a plug-in brings, such as yaml or xml.
        mode: ``strict``, or a way to validate that a plug-in brings, such as ``paper``.
        draft: The draft to assume for a schema without ``$schema``.
        extraction: How to find the answer in the reply (`harness.scoring.extraction`).
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool | str,
        format: str = "json",
        mode: str = STRICT,
        draft: Draft = "2020-12",
        extraction: str = "whole",
    ) -> None:
        self.extraction = BlockExtraction(extraction)
        _refuse_unknown("format", format, ["json", *Kind("document_formats").names()])
        _refuse_unknown("mode", mode, [STRICT, *Kind("schema_validators").names()])
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


def _refuse_unknown(option: str, value: str, names: Sequence[str]) -> None:
    if value not in names:
        problem = f"Option {option!r} of the checker 'json_schema': there is no {value!r:.60}."
        raise ConfigError(problem, nearest(value, names))


def _load(name: str) -> Any:
    try:
        text = Path(name).read_text("utf-8")
        format = "yaml" if name.endswith((".yaml", ".yml")) else "json"
        return validators.read(text, format)
    except (validators.UnparseableDocument, OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        remedy = "Give the path of a schema in JSON or YAML, or the schema itself."
        raise DataInvalid(f"The schema file {name!r}: {problem}.", remedy) from None


plugin = JsonSchemaChecker
