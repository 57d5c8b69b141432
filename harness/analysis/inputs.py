"""Reads files that users supply for analysis: human labels, and published scores of models.

Labels are used to validate a judge. They are JSONL, one line per verdict::

    {"instance": "tale", "sample": 0, "criterion": "Be brief.", "label": true}

``criterion`` is the criterion's text, its index in the judge's list, from 0, or the name of a
score; it may be omitted if there is one verdict per answer. ``label`` is null if the person could
not decide. ``attempt`` is the hash of the labelled text, as in ``judgements.jsonl``; a label with
this hash is not applied to a later answer.

Published scores are CSV or JSONL, with a field ``model`` and one numeric field per benchmark.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from harness.errors import DataInvalid, DataMissing

T = TypeVar("T")

MODEL = "model"
FORM = (
    'A line has the form {"instance": …, "sample": 0, "criterion": index or text, '
    '"label": true or false} (docs/judge_validation.md).'
)


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A human verdict on one criterion of one answer; see the module for the fields."""

    instance: str
    label: bool | None
    sample: Annotated[int, msgspec.Meta(ge=0)] = 0
    criterion: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    run: str | None = None
    attempt: str | None = None
    note: Any = None


def read_labels(path: Path) -> list[Label]:
    """Return the human labels in a file, in order; raises DataInvalid or DataMissing."""
    found: dict[Label, int] = {}
    labels = []
    for number, label in _jsonl(path, Label, FORM):
        key = msgspec.structs.replace(label, label=None, attempt=None, note=None)
        if key in found:
            problem = f"the same criterion was labelled in line {found[key]}"
            remedy = "Keep one label for each criterion: one person's, or what several agreed on."
            raise DataInvalid(f"{path}, line {number}: {problem}.", remedy)
        found[key] = number
        labels.append(label)
    if not labels:
        raise DataInvalid(f"{path} holds no labels.", FORM)
    return labels


def read_model_scores(path: Path) -> dict[str, dict[str, float]]:
    """Return published scores by benchmark, then model; raises DataInvalid or DataMissing."""
    found: dict[str, dict[str, float]] = {}
    seen = set[str]()
    rows = _csv(path) if path.suffix.lower() == ".csv" else _jsonl(path, dict[str, Any])
    for number, row in rows:
        where = f"{path}, line {number}"
        model = row.pop(MODEL, None)
        if not isinstance(model, str) or not model.strip():
            raise DataInvalid(f"{where}: it must name a {MODEL}.")
        if model in seen:
            raise DataInvalid(f"{where}: the model {model!r} appears twice.")
        seen.add(model)
        for name, value in row.items():
            score = _number(value, f"{where}: {name}")
            if score is not None:
                found.setdefault(name, {})[model] = score
    if not found:
        remedy = "Write a header model,score and a line for each model."
        raise DataInvalid(f"{path} holds no scores.", remedy)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataInvalid(f"{path}: not UTF-8 text ({error.reason}).") from None


def _csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(StringIO(_text(path), newline=""), strict=True, restkey="")
    try:
        for row in reader:
            if "" in row:
                raise DataInvalid(f"{path}, line {reader.line_num}: more values than columns.")
            yield reader.line_num, row
    except csv.Error as error:
        raise DataInvalid(f"{path}, line {reader.line_num}: {error}.") from None


def _jsonl(path: Path, shape: type[T], form: str = "") -> Iterator[tuple[int, T]]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            try:
                yield number, msgspec.json.decode(line, type=shape)
            except (msgspec.MsgspecError, RecursionError) as error:
                said = f"not a valid object ({str(error)[:160]})"
                raise DataInvalid(f"{path}, line {number}: {said}.", form) from None


def _number(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and isfinite(score := float(value)):
            return score
    raise DataInvalid(f"{where} must be a number, not {str(value)[:40]!r}.")
