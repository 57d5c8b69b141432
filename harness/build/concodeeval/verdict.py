"""What a validator says of a value: the one place of the builder that knows a validator.

``violations`` is strict: Draft 2020-12, formats asserted, ``multipleOf`` in decimal arithmetic.
``paper_accepts`` is what the authors' code says: Draft 7, no formats, Python's floats.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import jsonschema_rs
from jsonschema import Draft7Validator  # type: ignore[import-untyped,unused-ignore]

from harness.tasks.concodeeval.representations.schema import Schema, pointer


class Violation(NamedTuple):
    """A keyword that a value breaks.

    path: of the offending value in the instance; schema_path: of the keyword; both JSON Pointers.
    """

    path: str
    keyword: str
    schema_path: str


class Verdicts:
    """Judges values by one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = dict(schema)

    @cached_property
    def _strict(self) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(self.schema, validate_formats=True)

    @cached_property
    def _paper(self) -> Any:
        return Draft7Validator(self.schema)

    def accepts(self, value: object) -> bool:
        """Whether the value is valid."""
        return self._strict.is_valid(value)

    def paper_accepts(self, value: object) -> bool:
        """Whether the authors' code finds the value valid."""
        return bool(self._paper.is_valid(value))

    def violations(self, value: object) -> list[Violation]:
        """Each keyword that the value breaks.

        One that breaks twice at a place is there twice: ``required``, of two missing properties.
        """
        return [
            Violation(
                pointer("", *error.instance_path),
                str(error.schema_path[-1]),
                pointer("", *error.schema_path),
            )
            for error in self._strict.iter_errors(value)
        ]
