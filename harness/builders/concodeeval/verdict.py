"""What a validator says of a value: the one place of the builder that knows a validator.

``violations`` is strict: Draft 2020-12, formats asserted, ``multipleOf`` in decimal arithmetic.
``paper_accepts`` is what the authors' code says: Draft 7, no formats, Python's floats.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from harness.scoring.validators import Validator, validator
from harness.tasks.concodeeval.representations.schema import Schema


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
    def _strict(self) -> Validator:
        return validator(self.schema)

    @cached_property
    def _paper(self) -> Validator:
        return validator(self.schema, mode="paper")

    def accepts(self, value: object) -> bool:
        """Whether the value is valid."""
        return not self._strict.violations(value)

    def paper_accepts(self, value: object) -> bool:
        """Whether the authors' code finds the value valid."""
        return not self._paper.violations(value)

    def violations(self, value: object) -> list[Violation]:
        """Each keyword that the value breaks.

        One that breaks twice at a place is there twice: ``required``, of two missing properties.
        """
        return [
            Violation(one.path, one.keyword, one.schema_path)
            for one in self._strict.violations(value)
        ]
