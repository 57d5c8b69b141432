"""Names of runs and variants, and ``matrix:``, which makes a variant of every combination.

An axis of a matrix is a key with a list of values, or a name with named sets of changes:

    matrix:
      model.name: [gpt-4o, gpt-4o-mini]
      prompting: {zero_shot: {}, one_shot: {task.shots: 1}}

makes ``gpt-4o.zero_shot``, ``gpt-4o.one_shot``, ``gpt-4o-mini.zero_shot`` and so on.

>>> list(expanded({"samples": [1, 4], "prompting": {"zero": {}, "one": {"task.shots": 1}}}))
['1.zero', '1.one', '4.zero', '4.one']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

MAX_NAME = 200
"""Bytes of a run's name: file systems allow 255, and file names in the run extend it."""


def check_name(name: str) -> str:
    """Return the name of a run or variant if it can name a folder. Raises ValueError."""
    if len(name.encode(errors="replace")) > MAX_NAME:
        raise ValueError(f"'{name[:20]}…' cannot name a run: it is longer than {MAX_NAME} bytes")
    allowed = all(letter.isalnum() or letter in "._-" for letter in name)
    if not name or not allowed or name[0] in ".-":
        raise ValueError(
            f"{name!r} cannot name a run: use letters, digits, '_', '-' and '.' only, "
            "and begin with a letter, a digit or '_'"
        )
    return name


Axis = Sequence[Any] | Mapping[str, Mapping[str, Any]]

MAX_COMBINATIONS = 1_000


def expanded(matrix: Mapping[str, Axis]) -> dict[str, dict[str, Any]]:
    """Return the variants of a matrix: name to changes, with the last axis changing fastest.

    Raises:
        ValueError: An axis is empty, two variants would have the same name, two axes set the same
            key, or there are too many combinations.
    """
    axes = [_named(key, axis) for key, axis in matrix.items()]
    if prod(map(len, axes)) > MAX_COMBINATIONS:
        raise ValueError(f"matrix has more than {MAX_COMBINATIONS:,} combinations")
    _refuse_common_keys(matrix, axes)
    made: dict[str, dict[str, Any]] = {}
    for chosen in product(*(axis.items() for axis in axes)):
        name = ".".join(name for name, _ in chosen)
        if name in made:
            raise ValueError(
                f"matrix makes the name {name!r} twice: name the values, matrix: {{AXIS: {{NAME: "
                "{KEY: VALUE}}}"
            )
        if chosen:
            made[name] = {key: value for _, changes in chosen for key, value in changes.items()}
    return made


def keys(matrix: Mapping[str, Axis]) -> set[str]:
    """Return the keys that a matrix sets."""
    return {
        key
        for name, axis in matrix.items()
        for changes in _named(name, axis).values()
        for key in changes
    }


def _refuse_common_keys(matrix: Mapping[str, Axis], axes: Sequence[Mapping[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for name, axis in zip(matrix, axes, strict=True):
        for key in {key for changes in axis.values() for key in changes}:
            if key in seen:
                raise ValueError(
                    f"matrix sets {key} by two axes, {seen[key]} and {name}: remove it from one"
                )
            seen[key] = name


def _named(key: str, axis: Axis) -> dict[str, dict[str, Any]]:
    if not axis:
        raise ValueError(f"matrix.{key} is empty")
    if isinstance(axis, Mapping):
        return {name: dict(changes) for name, changes in axis.items()}
    named = {_name(key, value): {key: value} for value in axis}
    if len(named) < len(axis):
        raise ValueError(f"matrix.{key} has a value twice")
    return named


def _name(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | int | float):
        return str(value).replace("/", "-")  # Qwen/Qwen3-8B
    raise ValueError(
        f"matrix.{key} has a list or a section as a value: name its values, "
        f"matrix: {{AXIS: {{NAME: {{{key}: ...}}}}}}"
    )
