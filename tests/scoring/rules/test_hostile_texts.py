"""A long text of the worst that a model can write is checked in seconds, by every rule."""

from __future__ import annotations

import time

import pytest

from harness.scoring.rules import Rule, recognise
from tests.scoring.rules.test_recognition import TABLE

LENGTH = 100_000
PATTERNS = [
    "[", '{"a":', "a. ", "?! ", "\n", ".\n", "- ", "|-", "| ", '"', "a", " ", "```json\n", "1. a\n",
    "\u201c", "a," * 500 + "\n", "\U0001f600", "\ud800", "\0", "word ",
]  # fmt: skip


def one_of_each() -> list[Rule]:
    found: dict[str, Rule] = {}
    for text, _ in TABLE:
        rule = recognise(text)
        if rule is not None:
            found.setdefault(rule.name, rule)
    long = recognise(f'Use the phrase "{"a" * 300}" at least 2 times.')
    assert long is not None
    return [*found.values(), long]


@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
def test_every_rule_ends_soon(pattern: str) -> None:
    text = (pattern * (LENGTH // len(pattern) + 1))[:LENGTH]
    for rule in one_of_each():
        began = time.process_time()
        rule.check(text)
        assert time.process_time() - began < 4, rule.name
