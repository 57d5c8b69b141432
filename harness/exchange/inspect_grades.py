"""Inspect's scores as values: grades, booleans, numbers, and texts that stand for one.

Of a score that is a mapping each entry is a score of its own, ``SCORER.KEY``. What is none of
these is a score that could not be made; so is not a number, which is Inspect's "not scored".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.exchange.foreign_json import mapping, number, sequence, text
from harness.exchange.verdicts import PARTLY, Found
from harness.records import encodable

GRADES = {"C": 1.0, "I": 0.0, "N": 0.0, "P": PARTLY}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def inspect_grades(sample: Mapping[str, Any], where: str) -> Iterator[tuple[str, Found]]:
    """The scores of a sample by name."""
    for scorer, score in mapping(sample.get("scores")).items():
        told = mapping(score)
        details = {
            key: encodable(told[key]) if isinstance(told[key], str) else told[key]
            for key in ("answer", "metadata")
            if told.get(key)
        }
        reason = encodable(text(told.get("explanation")))
        value = told.get("value")
        values = value.items() if isinstance(value, dict) else [("", value)]
        for key, one in values:
            name = encodable(f"{scorer}.{key}" if key else scorer)
            yield name, _found(one, where, reason, details)


def is_accuracy(header: Mapping[str, Any]) -> Callable[[str], bool]:
    """Whether a log takes a score for an accuracy: it says so, or says nothing of the score."""
    metrics: dict[str, set[str]] = {}
    for score in map(mapping, sequence(mapping(header.get("results")).get("scores"))):
        scorer, name = text(score.get("scorer")), text(score.get("name"))
        full = name if name == scorer else f"{scorer}.{name}"
        metrics.setdefault(full, set()).update(mapping(score.get("metrics")))
    return lambda name: name not in metrics or "accuracy" in metrics[name]


def _found(value: Any, where: str, reason: str, details: dict[str, object]) -> Found:
    if isinstance(value, bool):
        return Found(float(value), True, reason, details)
    if isinstance(value, str):
        if value in GRADES:
            return Found(GRADES[value], True, reason, details | {"grade": value})
        if value.lower() in WORDS:
            return Found(WORDS[value.lower()], True, reason, details)
        try:
            value = float(value)
        except ValueError:
            return Found(None, False, reason, details | {"value": encodable(value)})
    if isinstance(value, list | dict):
        details = details | {"value": value}
    return Found(number(value, where), False, reason, details)
