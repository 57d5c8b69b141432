"""The data of the example's tasks, made up here so that they need no download."""

from __future__ import annotations

from typing import Any

from harness.errors import import_extra


def read(**options: Any) -> Any:
    """Return the splits of the example's data set."""
    dataset = import_extra("datasets", "lm-eval").Dataset
    rows = [_row(first, second) for first in range(2, 8) for second in (3, 10, 25, 41)]
    return {"train": dataset.from_list(rows[:4]), "test": dataset.from_list(rows[4:])}


def _row(first: int, second: int) -> dict[str, object]:
    total = first + second
    choices = [str(total + step) for step in sorted({0, 1, -first, 10}, key=lambda n: n * n % 7)]
    question = f"A box holds {first} red and {second} blue balls. How many balls are in it?"
    return {"question": question, "answer": str(total), "choices": choices}
