"""Scores that others have published for models, from a user's file.

CSV with a header, or JSONL: ``model``, and a number in each further field, which is one scoring by
its name (``score``; or several, ``ifeval,mmlu``). An empty or null one is not known.

>>> read_model_scores(Path("published.csv"))["ifeval"]["gpt-4"]  # doctest: +SKIP
0.769
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataInvalid, DataMissing

MODEL = "model"


def read_model_scores(path: Path) -> dict[str, dict[str, float]]:
    """Scoring to model to score.

    Raises: DataInvalid with file and line; DataMissing where it cannot be read.
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
                raise DataInvalid(f"{where}: the model {model!r} is there twice.")
            seen.add(model)
            for name, value in row.items():
                score = _number(value, f"{where}: {name}")
                if score is not None:
                    found.setdefault(name, {})[model] = score
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    except UnicodeDecodeError as error:
        raise DataInvalid(f"{path}: not a text in UTF-8 ({error.reason}).") from None
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
        raise DataInvalid(f"{where} must be a number, and {str(value)[:40]!r} is none.")
    return score
