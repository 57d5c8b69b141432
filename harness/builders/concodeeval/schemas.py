"""The schemas of a benchmark: seeded, each satisfiable, no two alike.

As many as the paper has: 50 for each root type (number, string, array, object) and value range
(0-10, 0-50, 0-100), one boolean, one null. The vocabulary ``paper`` has the paper's keywords,
``extended`` also const, enum, pattern, integer, maxContains, minItems, maxItems, uniqueItems,
schemas for additional properties, and arrays and objects within each other to a depth of three.

>>> [row.id for row in generate(0, per_range=1)][:2]
['number_0_10_i_0', 'number_0_50_i_0']
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from harness.builders.concodeeval import scalars
from harness.builders.concodeeval.valid import NoInstanceError, valid
from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws
from harness.errors import ConfigError

Vocabulary = Literal["paper", "extended"]
ROOTS = ("number", "string", "array", "object")
PER_RANGE = 50
RANGES = (10, 50, 100)
FILE_NAMES = {
    "number": "number_0_{high}_i_{number}",
    "string": "string_0_{high}_i_{number}",
    "array": "composite_0_{high}_array_i_{number}",
    "object": "composite_0_{high}_object_i_{number}",
}
"""What the authors call the files of their schemas."""

MOST_PROPERTIES = {10: 8, 50: 20, 100: 40}
DEEPEST = 3
ATTEMPTS = 500


class SchemaRow(Struct, frozen=True):
    """One line of ``schemas.jsonl``.

    range: from and to, of the values in it; None for boolean and null.
    """

    id: str
    root: str
    range: tuple[int, int] | None
    schema: dict[str, Any]


def generate(
    seed: int,
    *,
    vocabulary: Vocabulary = "paper",
    per_range: int = PER_RANGE,
    attempts: int = ATTEMPTS,
) -> Iterator[SchemaRow]:
    """The schemas, by root and range.

    attempts: draws for one schema, until one is satisfiable and new.

    Raises: ConfigError where so many different ones are not found.
    """
    draws = Draws(seed, "schemas", vocabulary)
    seen: set[str] = set()
    for root in ROOTS:
        for number in range(per_range):
            for high in RANGES:
                name = FILE_NAMES[root].format(high=high, number=number)
                schema = _new(root, high, vocabulary, draws.stream(name), seen, attempts)
                yield SchemaRow(name, root, (0, high), schema)
    for root in ("boolean", "null"):
        yield SchemaRow(root, root, None, {"type": root})


def drawn(root: str, high: int, vocabulary: Vocabulary, draws: Draws) -> dict[str, Any]:
    """One schema of a root type and range, satisfiable or not, seen before or not."""
    return _Maker(draws, high, vocabulary == "extended").root(root)


def _new(
    root: str, high: int, vocabulary: Vocabulary, draws: Draws, seen: set[str], attempts: int
) -> dict[str, Any]:
    for _ in range(attempts):
        schema = drawn(root, high, vocabulary, draws)
        key = json.dumps(schema, sort_keys=True)
        if key in seen:
            continue
        if _has_instances(schema, draws):
            seen.add(key)
            return schema
    raise ConfigError(
        f"After {attempts} draws there is no further {root} schema of the range 0-{high} that is "
        "satisfiable and new.",
        "Ask for fewer schemas, or for the extended vocabulary.",
    )


def _has_instances(schema: dict[str, Any], draws: Draws) -> bool:
    """Whether instances are found with ease: each of three times."""
    try:
        for _ in range(3):
            valid(schema, draws)
    except NoInstanceError:
        return False
    return True


class _Maker:
    """Draws schemas of one range."""

    def __init__(self, draws: Draws, high: int, extended: bool) -> None:
        self.draws, self.high, self.extended = draws, high, extended

    def root(self, kind: str) -> dict[str, Any]:
        match kind:
            case "number":
                return scalars.root_number(self.draws, self.high)
            case "string" if self.extended and self.draws.chance(0.2):
                return scalars.extended_string(self.draws)
            case "string":
                return scalars.root_string(self.draws, self.high)
            case "array":
                return self._array(1)
        return self._object(1)

    def _inner(self, depth: int, composite: float) -> dict[str, Any]:
        """What is in an array or object: scalars, or with some chance another of these."""
        if depth <= DEEPEST and self.draws.chance(composite):
            makers = (self._object, self._array) if self.extended else (self._object,)
            return self.draws.choice(makers)(depth)
        return self._scalar()

    def _scalar(self) -> dict[str, Any]:
        """One that has instances: an optional property that nothing can be would go unseen."""
        while True:
            schema = scalars.inner(self.draws, self.high, extended=self.extended)
            if _has_instances(schema, self.draws):
                return schema

    def _array(self, depth: int) -> dict[str, Any]:
        draws = self.draws
        schema: dict[str, Any] = {"type": "array"}
        form = draws.weighted({"items": 5, "contains": 5, "": 1 if depth == 1 else 3})
        if form:
            schema[form] = self._inner(depth + 1, 0.4 if depth == 1 else 0.25)
        if form == "contains" and draws.chance(0.7):
            least = draws.integer(0, 4)
            schema["minContains"] = least
            if self.extended and draws.chance(0.5):
                schema["maxContains"] = draws.integer(max(least, 1), least + 3)
        elif self.extended and form == "items":
            if draws.chance(0.6):
                least = draws.integer(0, 4)
                schema["minItems"] = least
                if draws.chance(0.6):
                    schema["maxItems"] = draws.integer(max(least, 1), least + 4)
            if draws.chance(0.4):
                schema["uniqueItems"] = True
        return schema

    def _object(self, depth: int) -> dict[str, Any]:
        draws = self.draws
        most = MOST_PROPERTIES[self.high] if depth == 1 else 5 + self.high // 10
        names = draws.sample(WORDS, draws.integer(1, most))
        composite = 0.2 if self.extended else 0.0
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: self._inner(depth + 1, composite) for name in names},
        }
        kinds = {"": 3, "true": 3, "false": 4} | ({"schema": 3} if self.extended else {})
        match draws.weighted(kinds):
            case "schema":
                schema["additionalProperties"] = self._scalar()
            case "true" | "false" as kind:
                schema["additionalProperties"] = kind == "true"
        share = draws.choice((0.0, 0.3, 0.5, 0.8))
        if required := [name for name in names if draws.chance(share)]:
            schema["required"] = required
        return schema
