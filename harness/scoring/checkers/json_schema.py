"""Checks a structured answer against a JSON Schema that the run file holds or names.

>>> checker = JsonSchemaChecker(schema={"type": "integer"}, extraction="fence")
>>> checker.check("```\\n5.5\\n```", Instance("1", None)).reason
'5.5 is not of type "integer"'
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataInvalid
from harness.records import Instance, Score
from harness.scoring.extraction import Extraction
from harness.scoring.validators import Draft, Format, Mode, Unreadable, read, score_document
from harness.scoring.validators.validator import validator


class JsonSchemaChecker:
    """A schema, the same for every instance.

    schema: the schema itself, or the path of a file that holds it (JSON, or YAML by its name).
    format: of the answer: json, yaml or xml.
    mode: strict, or as ConCodeEval's authors validate: paper.
    draft: for a schema without ``$schema``.
    extraction: where in the reply the answer is (`harness.scoring.extraction`).

    Raises: ConfigError where the schema cannot be read or used.
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool | str,
        format: Format = "json",
        mode: Mode = "strict",
        draft: Draft = "2020-12",
        extraction: str = "whole",
    ) -> None:
        self.format: Format = format
        self.mode: Mode = mode
        self.draft: Draft = draft
        self.extraction = Extraction(extraction)
        self.schema = _file(schema) if isinstance(schema, str) else schema
        try:
            validator(self.schema, mode=mode, draft=draft)
        except DataInvalid as error:
            raise _refused(error.message, error.remedy) from None

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Whether the answer is valid, and what it violates where it is not.

        Raises: Unparseable where there is no answer, or none that can be read.
        """
        answer = self.extraction.of(text)
        scores = score_document(
            answer, self.schema, format=self.format, mode=self.mode, draft=self.draft
        )
        return scores["valid"]


def _file(name: str) -> Any:
    path = Path(name)
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise _refused(
            f"The schema's file {name!r} cannot be read: {said}.",
            "Give the path of a file, or the schema itself.",
        ) from None
    try:
        return read(text, "yaml" if path.suffix in (".yaml", ".yml") else "json")
    except Unreadable as error:
        raise _refused(f"The schema's file {name!r} holds {error}.", "Mend the file.") from None


def _refused(message: str, remedy: str) -> ConfigError:
    return ConfigError(f"The checker 'json_schema': {message}", remedy)


plugin = JsonSchemaChecker
