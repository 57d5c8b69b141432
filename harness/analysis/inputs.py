"""Reads human labels (JSONL) and models' published scores (CSV or JSONL), which users supply.

Published scores have a field ``model`` and one numeric field per benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from harness.datasets.folder import decode_json, numbered_lines
from harness.datasets.rows import rows
from harness.errors import DataInvalid, raised_as
from harness.store.files import make_folder, write_whole
from harness.store.run_folder import LABELS

MODEL = "model"
FORM = (
    'A line has the form {"instance": …, "sample": 0, "criterion": index or text, '
    '"label": true or false} (harness docs judge_validation).'
)


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's verdict on one criterion of one answer."""

    instance: str
    label: bool | None  # None if the person could not decide
    sample: Annotated[int, msgspec.Meta(ge=0)] = 0
    # The criterion's text or its index in the judge's list, or the name of a score. It may be
    # omitted if there is only one.
    criterion: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    run: str | None = None
    attempt: str | None = None  # hash of the labelled text; another text needs another label
    note: Any = None


def read_labels(path: Path) -> list[Label]:
    """Return the labels in a JSONL file, in order."""
    found: dict[Label, int] = {}
    labels = []
    for number, label in _labels(path):
        key = replace(label, label=None, attempt=None, note=None)
        if key in found:
            problem = f"the same criterion was labelled in line {found[key]}"
            remedy = "Keep one label for each criterion: one person's, or what several agreed on."
            raise DataInvalid(f"{path}, line {number}: {problem}.", remedy)
        found[key] = number
        labels.append(label)
    if not labels:
        raise DataInvalid(f"{path} holds no labels.", FORM)
    return labels


def kept_labels(run: Path, judge: str) -> dict[str, Path]:
    """Return a run's copies of the label files with which a judge was validated, by file name.

    The key of a copy by an earlier version is "".
    """
    earlier = run / LABELS / f"{judge}.jsonl"
    folder = run / LABELS / judge
    paths = [*folder.glob("*.json"), *folder.glob("*.jsonl")]
    found = {path.name: path for path in sorted(paths)}
    return found | ({"": earlier} if earlier.is_file() else {})


def keep_labels(run: Path, judge: str, name: str, labels: Sequence[Label]) -> None:
    """Save labels of a run's answers in its folder, so that reports show the judge's agreement.

    Labels of other runs are left out.
    """
    path = run / LABELS / judge / name
    if own := [replace(label, run=None) for label in labels if label.run in (None, run.name)]:
        make_folder(path.parent)
        write_whole(path, msgspec.json.Encoder().encode_lines(own))


def read_model_scores(path: Path) -> dict[str, dict[str, float]]:
    """Return the published scores in a CSV or JSONL file, by benchmark and then by model."""
    found: dict[str, dict[str, float]] = {}
    seen = set[str]()
    for where, row in rows(path):
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


def _labels(path: Path) -> Iterator[tuple[int, Label]]:
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        try:
            with raised_as(DataInvalid, f"{where}: "):
                row = decode_json(line, dict[str, Any])
            yield number, msgspec.convert(row, Label)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = f"not a valid object ({str(error)[:160]})"
            raise DataInvalid(f"{where}: {problem}.", FORM) from None


def _number(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and isfinite(score := float(value)):
            return score
    raise DataInvalid(f"{where} must be a number, not {str(value)[:40]!r}.")
