"""Converts GPT-3's published answers to Natural Instructions into a file that the harness reads."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.datasets.catalogue import decoded, members
from harness.errors import DataInvalid

_ANSWERS = re.compile(r"(?:.*/)?predictions/gpt3_outputs/([^@/]+)@(_[^@/]+)@(\d{1,4})_\d+\.json")


class _Answer(msgspec.Struct):
    index: int
    output: str


class _Predictions(msgspec.Struct):
    predictions: list[_Answer]


def write_predictions(archive: Path, tasks: Collection[str]) -> Iterator[bytes]:
    """Yield the lines of ``gpt3_predictions.jsonl``: GPT-3's answers to the named tasks."""

    def described(name: str) -> re.Match[str] | None:
        found = _ANSWERS.fullmatch(name)
        return found if found and found[1] in tasks else None

    row: dict[str, Any] = {}
    for name, content in members(archive, described):
        task, encoding, examples = described(name).groups()  # type: ignore[union-attr]
        found = decoded(content, _Predictions, f"{archive}: {name} is not a file of answers")
        row = {"task": task, "encoding": encoding}
        row |= {"fields": encoding.removeprefix("_").split("_"), "n_examples": int(examples)}
        for answer in found.predictions:
            answered = {"index": answer.index, "output": answer.output}
            yield msgspec.json.encode(row | answered) + b"\n"
    if not row:
        raise DataInvalid(f"{archive}: it has no answers of GPT-3.")
