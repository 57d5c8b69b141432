"""Draws a benchmark's schemas from a seed. All schemas are satisfiable and distinct.

Root scalars are distributed as in the 300 published schemas: 128 of 150 numbers have
``multipleOf``, 138 of 150 strings have a ``format`` (one of 19), and bounds are the ends of the
value range. But a third of the bounds on length are within the range, because the published
``minLength`` is always 0, which excludes nothing. And there are no duplicates, whereas 48 of the
published schemas are duplicates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from harness.errors import ConfigError
from harness.plugins.builders.concodeeval.values import (
    FORMATS,
    PATTERNS,
    WORDS,
    is_satisfiable,
    number,
)
from harness.plugins.builders.draws import Draws

Vocabulary = Literal["paper", "extended"]
ROOTS = ("number", "string", "array", "object")
PER_RANGE = 50
RANGES = (10, 50, 100)
MOST_PROPERTIES = {10: 8, 50: 20, 100: 40}
DEEPEST = 3
ATTEMPTS = 500


class BuiltSchema(Struct, frozen=True):
    """A randomly generated schema: one line of ``schemas.jsonl``."""

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
) -> Iterator[BuiltSchema]:
    """Yield ``per_range`` schemas of each root type and value range, all distinct.

    The root types boolean and null have no range, and get one schema each.
    """
    seen: set[str] = set()
    for root, place, high in product(ROOTS, range(per_range), RANGES):
        # As in the names of the authors' files.
        name = f"{root}_0_{high}" if root in ("number", "string") else f"composite_0_{high}_{root}"
        name += f"_i_{place}"
        draws = Draws(seed, "schemas", vocabulary, name)
        for _ in range(attempts):
            schema = drawn(root, high, vocabulary, draws)
            key = json.dumps(schema, sort_keys=True)
            if key not in seen and is_satisfiable(schema, draws):
                break
        else:
            message = f"{attempts} draws gave no further {root} schema of the range 0-{high}"
            remedy = "Ask for fewer schemas, or for the extended vocabulary."
            raise ConfigError(f"{message} that is satisfiable and new.", remedy)
        seen.add(key)
        yield BuiltSchema(name, root, (0, high), schema)
    for root in ("boolean", "null"):
        yield BuiltSchema(root, root, None, {"type": root})


def drawn(root: str, high: int, vocabulary: Vocabulary, draws: Draws) -> dict[str, Any]:
    """Draw a schema of a root type, with bounds of at most ``high``. It may be unsatisfiable."""
    return _Maker(draws, high, vocabulary == "extended").root(root)


class _Maker:
    def __init__(self, draws: Draws, high: int, extended: bool) -> None:
        self.draws, self.high, self.extended = draws, high, extended

    def root(self, kind: str) -> dict[str, Any]:
        match kind:
            case "number":
                return self._number(128 / 150, root=True)
            case "string" if self.extended and self.draws.chance(0.2):
                return self._pattern() if self.draws.chance(0.5) else self._choice("string")
            case "string":
                return self._string(138 / 150, inside=1 / 3)
            case "array":
                return self._array(1)
        return self._object(1)

    def _inner(self, depth: int = 1, composite: float = 0) -> dict[str, Any]:
        """Draw a satisfiable subschema, a composite one with the probability ``composite``."""
        # `generate` does not check that optional properties are satisfiable.
        makers = (self._object, self._array) if self.extended else (self._object,)
        while True:
            deeper = depth <= DEEPEST and self.draws.chance(composite)
            schema = self.draws.choice(makers)(depth) if deeper else self._scalar()
            if is_satisfiable(schema, self.draws):
                return schema

    def _scalar(self) -> dict[str, Any]:
        """Draw the schema of an item or property."""
        draws, high = self.draws, self.high
        kinds = {"number": 4, "string": 4, "boolean": 2, "null": 2, "": 2}
        if self.extended:
            kinds |= {"integer": 3, "choice": 3, "pattern": 2}
        match draws.weighted(kinds):
            case "number":
                return self._number(0.5) if draws.chance(0.5) else {"type": "number"}
            case "string":
                return self._string(0.4, inside=0.8)
            case "integer":
                low = draws.integer(0, high // 2)
                return {"type": "integer", "minimum": low, "maximum": draws.integer(low, high)}
            case "choice":
                return self._choice(draws.choice(("string", "integer")))
            case "pattern":
                return self._pattern()
            case kind:
                return {"type": kind} if kind else {}

    def _number(self, multiples: float, root: bool = False) -> dict[str, Any]:
        draws, highest = self.draws, self.high * 100
        middle = highest // 2
        schema: dict[str, Any] = {"type": "number"}
        if draws.chance(multiples):
            schema["multipleOf"] = number(draws.integer(1, highest if root else middle))
        for bound in draws.weighted(_BOUNDS):
            low, high = (0, middle) if bound.endswith("inimum") else (highest, middle + 1)
            schema[bound] = number(low if root else draws.integer(*sorted((low, high))))
        return schema

    def _string(self, formatted: float, inside: float) -> dict[str, Any]:
        # A bound on length is within the range with probability `inside`, otherwise at its end.
        draws, high = self.draws, self.high
        schema: dict[str, Any] = {"type": "string"}
        if draws.chance(formatted):
            schema["format"] = draws.choice(tuple(FORMATS))
        for bound in draws.weighted(_LENGTHS):
            ends = (0, high // 2) if bound == "minLength" else (high, high // 2 + 1)
            schema[bound] = draws.integer(*sorted(ends)) if draws.chance(inside) else ends[0]
        return schema

    def _choice(self, kind: str) -> dict[str, Any]:
        draws = self.draws
        pool: Sequence[Any] = WORDS if kind == "string" else range(self.high + 1)
        values = draws.sample(pool, draws.integer(1, 5))
        return {"type": kind} | ({"enum": values} if len(values) > 1 else {"const": values[0]})

    def _pattern(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.draws.choice(tuple(PATTERNS))}

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
                schema["additionalProperties"] = self._inner()
            case "true" | "false" as kind:
                schema["additionalProperties"] = kind == "true"
        share = draws.choice((0.0, 0.3, 0.5, 0.8))
        if required := [name for name in names if draws.chance(share)]:
            schema["required"] = required
        return schema


# Counts of published schemas by combination of bounds: 128 numbers with ``multipleOf``, 150 strings
_RECORDED = json.loads(Path(__file__).with_name("bounds.json").read_text("utf-8"))
_BOUNDS, _LENGTHS = ({tuple(b): n for b, n in _RECORDED[kind]} for kind in ("number", "string"))
