"""The instances of the validation task: valid ones, and ones that break exactly one keyword."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from harness.builders.concodeeval.schemas import SchemaRow
from harness.builders.concodeeval.targets import Target, targets
from harness.builders.concodeeval.valid import NoInstanceError, valid
from harness.builders.concodeeval.verdict import Verdicts, Violation
from harness.builders.concodeeval.violating import Broken, break_target
from harness.builders.draws import Draws

ATTEMPTS = 12
"""Draws for one more instance of a schema that differs from those before."""


class InstanceRow(Struct, frozen=True):
    """One line of ``validation.jsonl``.

    label: what Draft 2020-12 with formats says.
    paper_label: what Draft 7 without formats says, in Python's floats, as the authors' code does.
    keyword, path, schema_path: what a "no" breaks; path is of the value in the instance,
        schema_path of the keyword in the schema, both JSON Pointers. None for a "yes".
    """

    id: str
    schema_id: str
    value: Any
    label: Literal["yes", "no"]
    paper_label: Literal["yes", "no"]
    keyword: str | None = None
    path: str | None = None
    schema_path: str | None = None


def instances(seed: int, schemas: Sequence[SchemaRow], *, yes: int, no: int) -> list[InstanceRow]:
    """So many of each label, spread over the schemas as evenly as these have them.

    Fewer, where all schemas together have no more different ones.
    """
    sources = [_Source(Draws(seed, "instances", row.id), row) for row in schemas]
    found: dict[str, list[InstanceRow]] = {row.id: [] for row in schemas}
    for label, wanted in (("yes", yes), ("no", no)):
        streams = [source.valid() if label == "yes" else source.broken() for source in sources]
        for row in _in_turn(streams, wanted):
            found[row.schema_id].append(row)
    return [row for rows in found.values() for row in rows]


def _in_turn(streams: list[Iterator[InstanceRow]], wanted: int) -> Iterator[InstanceRow]:
    """One of each stream, round by round, until there are as many as wanted."""
    while streams:
        left = []
        for stream in streams:
            if wanted <= 0:
                return
            row = next(stream, None)
            if row is not None:
                wanted -= 1
                left.append(stream)
                yield row
        streams = left


class _Source:
    """The different instances of one schema."""

    def __init__(self, draws: Draws, row: SchemaRow) -> None:
        self.draws, self.row = draws, row
        self.verdicts = Verdicts(row.schema)
        self.seen: set[str] = set()

    def valid(self) -> Iterator[InstanceRow]:
        draws = self.draws.stream("yes")
        number = 0
        for _ in range(ATTEMPTS * 10):
            try:
                value = valid(self.row.schema, draws, self.verdicts)
            except NoInstanceError:
                continue
            if self._is_new(value):
                yield self._row(f"yes_{number}", value, None)
                number += 1

    def broken(self) -> Iterator[InstanceRow]:
        """Keyword after keyword, so that the many types of an object do not crowd out the rest."""
        draws = self.draws.stream("no")
        number = 0
        for _ in range(ATTEMPTS):
            for target in _one_of_each_keyword(list(targets(self.row.schema)), draws):
                found = break_target(self.row.schema, target, draws, self.verdicts)
                if isinstance(found, Broken) and self._is_new(found.value):
                    yield self._row(f"no_{number}", found.value, found.violation)
                    number += 1

    def _is_new(self, value: Any) -> bool:
        key = json.dumps(value, sort_keys=True)
        new = key not in self.seen
        self.seen.add(key)
        return new

    def _row(self, name: str, value: Any, violation: Violation | None) -> InstanceRow:
        return InstanceRow(
            id=f"{self.row.id}/{name}",
            schema_id=self.row.id,
            value=value,
            label="no" if violation else "yes",
            paper_label="yes" if self.verdicts.paper_accepts(value) else "no",
            keyword=violation.keyword if violation else None,
            path=violation.path if violation else None,
            schema_path=violation.schema_path if violation else None,
        )


def _one_of_each_keyword(found: list[Target], draws: Draws) -> list[Target]:
    """A target of each keyword, in an order in which ``type``, which all have, comes last."""
    by_keyword: dict[str, list[Target]] = {}
    for target in found:
        by_keyword.setdefault(target.keyword, []).append(target)
    chosen = draws.shuffled([draws.choice(group) for group in by_keyword.values()])
    return sorted(chosen, key=lambda target: target.keyword == "type")
