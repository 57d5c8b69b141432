"""Files that users supply for analysis: people's labels, and published scores of models.

Labels validate a judge. They are JSONL, a line for each verdict::

    {"instance": "tale", "sample": 0, "criterion": "Be brief.", "label": true}

``criterion`` is the criterion's text, its place in the judge's list, from 0, or the name of a
score; it may be omitted if the judge gives one verdict per answer. ``label`` is null if the
person could not decide. ``sample`` is 0 by default. ``run`` names the run, which is required if
several are validated together; ``attempt`` is the hash of the labelled text in
``judgements.jsonl``, so that a label is not applied to a later answer; ``note`` is for the person.

Published scores are CSV with a header, or JSONL: ``model``, and a number in each further field,
which is one benchmark or metric by its name (``score``; or several, ``ifeval,mmlu``). An empty or
null one is unknown.

>>> read_labels(Path("labels.jsonl"))[0].label  # doctest: +SKIP
True
>>> read_model_scores(Path("published.csv"))["ifeval"]["gpt-4"]  # doctest: +SKIP
0.769
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.errors import DataInvalid, DataMissing

MODEL = "model"
FORM = (
    'A line has the form {"instance": …, "sample": 0, "criterion": index or text, '
    '"label": true or false} (docs/judge_validation.md).'
)


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's verdict on one criterion of one answer.

    Attributes:
        instance: The instance's name.
        label: None if the person could not decide.
        sample: From 0.
        criterion: Its place in the judge's list, from 0, or its text; None for the only one.
        run: The run's name; None for the only one.
        attempt: Hash of the labelled text; None for the one that the run has.
        note: ignored.
    """

    instance: str
    label: bool | None
    sample: Annotated[int, msgspec.Meta(ge=0)] = 0
    criterion: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    run: str | None = None
    attempt: str | None = None
    note: Any = None


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a file, in its order.

    Raises:
        DataInvalid: A line is not a label, or labels the same criterion as another.
        DataMissing: The file cannot be read.
    """
    decode = msgspec.json.Decoder(Label).decode
    found: list[Label] = []
    seen: dict[tuple[str | None, str, int, int | str | None], int] = {}
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            label = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataInvalid(f"{path}, line {number}: {str(error)[:160]}.", FORM) from None
        key = (label.run, label.instance, label.sample, label.criterion)
        if key in seen:
            raise DataInvalid(
                f"{path}, line {number}: the same criterion was labelled in line {seen[key]}.",
                "Keep one label for each criterion: one person's, or what several agreed on.",
            )
        seen[key] = number
        found.append(label)
    if not found:
        raise DataInvalid(f"{path} holds no labels.", FORM)
    return found


def read_model_scores(path: Path) -> dict[str, dict[str, float]]:
    """Read published scores, by benchmark and then by model.

    Raises:
        DataInvalid: A line is not a model with its scores, or names a model twice.
        DataMissing: The file cannot be read.
    """
    found: dict[str, dict[str, float]] = {}
    seen = set[str]()
    try:
        rows = _csv(path) if path.suffix.lower() == ".csv" else _jsonl(path)
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
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataInvalid(f"{path}: not UTF-8 text ({error.reason}).") from None
    if not found:
        raise DataInvalid(
            f"{path} holds no scores.", "Write a header model,score and a line for each model."
        )
    return found


def _csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, strict=True, restkey="")
        try:
            for row in reader:
                if "" in row:
                    raise DataInvalid(f"{path}, line {reader.line_num}: more values than columns.")
                yield reader.line_num, row
        except csv.Error as error:
            raise DataInvalid(f"{path}, line {reader.line_num}: {error}.") from None


def _jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            try:
                yield number, decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise DataInvalid(f"{path}, line {number}: not a JSON object ({error}).") from None


def _number(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        score = float(value) if not isinstance(value, bool | list | dict) else float("nan")
    except (ValueError, OverflowError):
        score = float("nan")
    if not isfinite(score):
        raise DataInvalid(f"{where} must be a number, not {str(value)[:40]!r}.")
    return score
