"""Speed of validating answers, and whether paper mode agrees with the original.

    python scripts/bench_validators.py [--answers 100000] [--pairs 10000] [--check]

Reads and validates JSON answers against 602 generated schemas of ConCodeEval's kind, in both modes,
on one core, and python's `jsonschema` on a part of them in the same run. --pairs compares the
violations in paper mode with those of `jsonschema.Draft7Validator` on generated pairs. --check
fails if 100,000 answers would take 20 s, if the pairs are not 30 to 70% valid, or if one pair
disagrees.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator

from harness.plugins.benchmarks.concodeeval.documents import read
from harness.scoring.validators import UnparseableDocument, validator
from harness.scoring.validators.limits import pointer

ROOTS = (*["number", "string", "array", "object"] * 150, "boolean", "null")
"""Root types of the paper's 602 schemas."""
MOST_SECONDS = 20.0
FORMATS = ("date", "time", "date-time", "duration", "email", "uri", "iri-reference", "ipv4", "uuid")
WORDS = ("a", "bc", "é", "2020-01-01", "12:30:00Z", "x@y.org", "http://a.b/c", "P1Y", "1.2.3.4", "")
PATTERNS = ("^[a-z]+$", "[0-9]{2,}", "b|c", "^.{1,3}$", r"\d", "^(a|é)", "x$")


class Pairs:
    """Generates schemas and, for each, instances of which about half are valid."""

    def __init__(self, seed: int, extended: bool = True) -> None:
        self.random = random.Random(seed)
        self.extended = extended

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def number(self) -> float | int:
        if self.chance(0.5):
            return self.random.randint(-5, 100)
        return round(self.random.uniform(0, 100), self.random.choice((1, 2, 3)))

    def schema(self, kind: str | None = None, depth: int = 2) -> dict[str, Any]:
        kinds = ["number", "integer", "string", "boolean", "null"]
        kind = kind or self.random.choice(kinds + (["array", "object"] * 2 if depth else []))
        schema: dict[str, Any] = {"type": kind}
        if kind in ("number", "integer"):
            low = self.random.choice((0, 0, -10, 2.5))
            if self.chance(0.5):
                schema[self.random.choice(("minimum", "exclusiveMinimum"))] = low
            if self.chance(0.5):
                high = self.random.choice((10, 50, 100, 99.5))
                schema[self.random.choice(("maximum", "exclusiveMaximum"))] = high
            if self.chance(0.4):
                schema["multipleOf"] = self.random.choice((1, 2, 0.1, 0.01, 2.5, 0.3, 1e-8, 7.0))
        elif kind == "string":
            if self.chance(0.4):
                schema["minLength"] = self.random.randint(0, 2)
            if self.chance(0.4):
                schema["maxLength"] = self.random.choice((3, 10, 50))
            if self.chance(0.3):
                schema["format"] = self.random.choice(FORMATS)
            if self.extended and self.chance(0.2):
                schema["pattern"] = self.random.choice(PATTERNS)
        elif kind == "array":
            self.array(schema, depth)
        elif kind == "object":
            self.object(schema, depth)
        if self.extended and self.chance(0.06):
            schema["enum"] = [self.value(schema, depth) for _ in range(3)]
        elif self.extended and self.chance(0.03):
            schema["const"] = self.value(schema, depth)
        if self.extended and self.chance(0.05):
            schema["type"] = [kind, self.random.choice(("null", "string", "integer"))]
        if self.extended and self.chance(0.05):
            del schema["type"]
        return schema

    def array(self, schema: dict[str, Any], depth: int) -> None:
        if self.chance(0.7):
            schema["items"] = self.schema(depth=depth - 1)
            if self.extended and self.chance(0.1):
                schema["items"] = [schema["items"], self.schema(depth=depth - 1)]
        if self.chance(0.4):
            items = schema.get("items")
            same = isinstance(items, dict) and self.chance(0.7)
            schema["contains"] = items if same else self.schema(depth=depth - 1)
            if self.chance(0.5):
                schema["minContains"] = self.random.randint(0, 3)
        if self.extended:
            if self.chance(0.3):
                schema["minItems"] = self.random.randint(0, 2)
            if self.chance(0.3):
                schema["maxItems"] = self.random.randint(2, 5)
            if self.chance(0.2):
                schema["uniqueItems"] = self.chance(0.9)

    def object(self, schema: dict[str, Any], depth: int) -> None:
        count = self.random.choice((1, 3, 5, 12))
        names = ["".join(self.random.choices(string.ascii_lowercase, k=6)) for _ in range(count)]
        schema["properties"] = {name: self.schema(depth=depth - 1) for name in names}
        if self.chance(0.6):
            schema["required"] = self.random.sample(names, self.random.randint(0, len(names)))
        if self.chance(0.5):
            schema["additionalProperties"] = (
                self.chance(0.5) if self.chance(0.7) else self.schema(depth=depth - 1)
            )

    def value(self, schema: Any, depth: int = 3) -> Any:
        """A value that is mostly valid, one keyword at a time."""
        if not isinstance(schema, dict) or self.chance(0.1):
            return self.anything(depth)
        if "const" in schema and self.chance(0.95):
            return schema["const"]
        if "enum" in schema and self.chance(0.95):
            return self.random.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.random.choice(kind)
        if kind in ("number", "integer"):
            return self.number_of(schema, kind)
        if kind == "string":
            return self.string_of(schema)
        if kind == "array":
            return self.array_of(schema, depth)
        if kind == "object":
            return self.object_of(schema, depth)
        if kind == "boolean":
            return self.chance(0.5)
        return None if kind == "null" else self.anything(depth)

    def number_of(self, schema: dict[str, Any], kind: str) -> Any:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 20))
        number = self.random.choice((low, high, self.random.uniform(low, high)))
        step = schema.get("multipleOf")
        if step and self.chance(0.9):
            steps = self.random.randint(
                int(low / step) + 1, max(int(low / step) + 1, int(high / step))
            )
            return steps * step if self.chance(0.5) else round(steps * step, 9)
        if kind == "integer" and self.chance(0.95):
            return int(number) if self.chance(0.8) else float(int(number))
        return round(number, 2) if self.chance(0.9) else number

    def string_of(self, schema: dict[str, Any]) -> str:
        words = [word for word in WORDS if len(word) >= schema.get("minLength", 0)]
        words = [word for word in words if len(word) <= schema.get("maxLength", 99)] or ["abc"]
        return self.random.choice(words if self.chance(0.95) else WORDS)

    def array_of(self, schema: dict[str, Any], depth: int) -> list[Any]:
        count = self.random.randint(schema.get("minItems", 1), schema.get("maxItems", 4))
        count += self.chance(0.03)
        items = schema.get("items", True)
        if isinstance(items, list):
            parts = [self.value(part, depth - 1) for part in items][:count]
        else:
            parts = [self.value(items, depth - 1) for _ in range(count)]
        if "contains" in schema and self.chance(0.9):
            parts.append(self.value(schema["contains"], depth - 1))
        return parts + parts[:1] if self.chance(0.05) else parts

    def object_of(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", [])
        members = {
            name: self.value(part, depth - 1)
            for name, part in schema.get("properties", {}).items()
            if (name in required and self.chance(0.98)) or self.chance(0.6)
        }
        if schema.get("additionalProperties") is not False or self.chance(0.1):
            extra = schema.get("additionalProperties", True)
            if self.chance(0.4):
                members["extra"] = self.value(extra, depth - 1)
        return members

    def anything(self, depth: int) -> Any:
        choices: list[Any] = [None, True, False, 0, 1, 1.0, self.number(), *WORDS[:3]]
        if depth > 0:
            choices += [[], {}, [self.number(), "a"], {"a": self.number()}, [1, True], [0, False]]
        return self.random.choice(choices)

    def pairs(self) -> Iterator[tuple[dict[str, Any], Any]]:
        while True:
            schema = self.schema()
            for _ in range(5):
                yield schema, self.value(schema)


def original(schema: Any, value: Any) -> list[tuple[str, str]]:
    """Return the path and keyword of each error of `jsonschema.Draft7Validator`."""
    return [
        (pointer(error.absolute_path), str(error.validator or "falseSchema"))
        for error in Draft7Validator(schema).iter_errors(value)
    ]


def compared(count: int, seed: int) -> tuple[int, list[tuple[Any, Any]]]:
    """Return how many pairs are valid, and the pairs on which paper mode disagrees."""
    valid, differing = 0, []
    source = Pairs(seed).pairs()
    for _ in range(count):
        schema, value = next(source)
        expected = original(schema, value)
        found = validator(schema, mode="paper").violations(value)
        valid += not expected
        # Additional members are checked in the order of a set, which varies between processes.
        if sorted((one.path, one.keyword) for one in found) != sorted(expected):
            differing.append((schema, value))
    return valid, differing


def answers(count: int, seed: int = 7) -> list[tuple[Any, str]]:
    """Yield schemas with texts of answers, taking the schemas in turn."""
    source = Pairs(seed, extended=False)
    schemas = [source.schema(kind) for kind in ROOTS]
    return [
        (schema, json.dumps(source.value(schema), indent=4, ensure_ascii=False))
        for schema in (schemas[position % len(schemas)] for position in range(count))
    ]


def timed(work: Callable[[], int]) -> tuple[float, int]:
    start = time.process_time()
    valid = work()
    return time.process_time() - start, valid


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()

    asked = answers(given.answers)
    part = asked[: max(given.answers // 20, 602)]

    def ours(mode: Any) -> int:
        valid = 0
        for schema, text in asked:
            compiled = validator(schema, mode=mode)
            try:
                valid += not compiled.violations(read(text, mode=mode))
            except UnparseableDocument:
                continue
        return valid

    def python() -> int:
        checker = Draft202012Validator.FORMAT_CHECKER
        compiled = {
            id(schema): Draft202012Validator(schema, format_checker=checker) for schema, _ in part
        }
        return sum(not list(compiled[id(one)].iter_errors(json.loads(text))) for one, text in part)

    validator(True)  # the libraries are loaded here
    validator(True, mode="paper")
    failed = []
    python_seconds, python_valid = timed(python)
    each = python_seconds / len(part)
    print(f"{len(asked):,} answers, {len(ROOTS)} schemas, one core\n")
    print(f"{'':20}{'seconds':>9}{'us/answer':>11}{'ratio':>7}{'valid':>8}")
    for mode in ("strict", "paper"):
        seconds, valid = timed(lambda mode=mode: ours(mode))  # type: ignore[misc]
        print(
            f"{mode:20}{seconds:9.2f}{1e6 * seconds / len(asked):11.1f}"
            f"{seconds / len(asked) / each:7.2f}{valid / len(asked):8.1%}"
        )
        if seconds / len(asked) * 100_000 > MOST_SECONDS:
            failed.append(f"{mode}: 100,000 answers take more than {MOST_SECONDS:g} s")
    print(
        f"{'python jsonschema':20}{each * len(asked):9.2f}{1e6 * each:11.1f}{1:7.2f}"
        f"{python_valid / len(part):8.1%}  (from {len(part):,})"
    )
    if given.pairs:
        valid, differing = compared(given.pairs, given.seed)
        print(
            f"\npaper mode and Draft7Validator: {given.pairs:,} pairs, {valid / given.pairs:.0%}"
            f" valid, {len(differing)} disagree"
        )
        for schema, value in differing[:3]:
            print(json.dumps(schema), json.dumps(value))
        if differing or not 0.3 <= valid / given.pairs <= 0.7:
            failed.append("paper mode does not agree, or the pairs are not 30 to 70% valid")
    if given.check and failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
