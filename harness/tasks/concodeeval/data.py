"""The schemas of ConCodeEval, and samples that are valid against them or break one constraint.

Data sets: ``builtin`` (62 schemas and 124 samples of our own, offline), ``recorded`` (300 of the
authors' 602 schemas, in the data folder, without samples), a folder that ``harness build
concodeeval`` has made, or a JSONL file of one's own schemas: ``{"id": …, "schema": {…}}``.

>>> read("builtin", folder).schemas[0].id  # doctest: +SKIP
'number_0_10_i_0'
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from harness.datasets.folder import DataFolder, read_jsonl, sha256
from harness.errors import DataInvalid, DataMissing
from harness.scoring.validators import Mode, validator
from harness.tasks.concodeeval.representations.schema import as_schema

BUILTIN = Path(__file__).with_name("builtin")
RECORDED = "concodeeval/scalar_schemas.jsonl"
SCHEMAS, SAMPLES = "schemas.jsonl", "validation.jsonl"

DRAFT_7 = "http://json-schema.org/draft-07/schema#"

Label = Literal["yes", "no"]


class SchemaRow(msgspec.Struct, frozen=True):
    """A schema.

    root: its type; "any" where it names none, or several.
    range: of the values in it, as in the authors' file names: "0-10".
    """

    id: str
    schema: dict[str, Any]
    root: str = "any"
    range: str = ""

    @property
    def digest(self) -> str:
        """The same for schemas that say the same: 48 of the authors' 300 are repetitions."""
        text = msgspec.json.encode(self.schema, order="deterministic")
        return hashlib.sha256(text).hexdigest()


class Sample(msgspec.Struct, frozen=True):
    """A value to be judged against a schema.

    label: whether it is valid: Draft 2020-12, formats asserted, exact numbers.
    paper_label: the same by the authors' validation: Draft 7, no formats, floats.
    """

    id: str
    schema_id: str
    value: Any
    label: Label
    paper_label: Label


R = TypeVar("R", SchemaRow, Sample)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set, read.

    samples: by the id of their schema; a recorded data set has none.
    digest: of the files.
    """

    schemas: tuple[SchemaRow, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    digest: str


def read(dataset: str, data: DataFolder) -> Benchmark:
    """A data set by its name or path.

    Raises: DataMissing; DataInvalid naming file and line.
    """
    path = _path(dataset, data)
    if not path.is_dir():
        return Benchmark(_unique(path, _schemas(path)), {}, sha256(path))
    files = [path / SCHEMAS, path / SAMPLES]
    for file in files:
        if not file.is_file():
            raise DataMissing(
                f"{path} has no {file.name}.", "Make a benchmark: harness build concodeeval."
            )
    schemas = _unique(files[0], _schemas(files[0]))
    samples: dict[str, list[Sample]] = {row.id: [] for row in schemas}
    for where, row in _lines(files[1]):
        sample = _converted(row, Sample, where)
        if sample.schema_id not in samples:
            raise DataInvalid(f"{where}: there is no schema {sample.schema_id!r:.80}.")
        samples[sample.schema_id].append(sample)
    _unique(files[1], [sample for found in samples.values() for sample in found])
    digest = hashlib.sha256(" ".join(map(sha256, files)).encode()).hexdigest()
    return Benchmark(schemas, {name: tuple(found) for name, found in samples.items()}, digest)


def refuse_broken(schemas: Sequence[SchemaRow], mode: Mode) -> None:
    """Compile them all: a broken one is to be told before any call is made.

    The authors' engine finds a broken one where an answer comes to it, so that for `paper` mode
    the strict one looks at them first, by the rules of the same draft.

    Raises: DataInvalid.
    """
    for row in schemas:
        try:
            if mode == "paper":
                validator({**row.schema, "$schema": DRAFT_7})
            validator(row.schema, mode=mode)
        except DataInvalid as error:
            raise DataInvalid(f"The schema {row.id!r:.80}: {error.message}", error.remedy) from None


def _path(dataset: str, data: DataFolder) -> Path:
    if dataset == "builtin":
        return BUILTIN
    if dataset != "recorded":
        return data.place(dataset)
    try:
        return data.file(RECORDED)
    except DataMissing as error:
        raise DataMissing(
            error.message,
            "It is not fetched, for it has no licence: docs/concodeeval.md says where it is from.",
        ) from None


def _schemas(path: Path) -> Iterator[SchemaRow]:
    for where, row in _lines(path):
        if not isinstance(row.get("schema"), dict):
            raise DataInvalid(f"{where}: there is no schema in it.", "A schema is a JSON object.")
        schema = as_schema(row["schema"], f"{where}: the")
        name = row.get("id", Path(str(row.get("file", ""))).stem)  # string_0_100_i_15.json
        kind, bounds = schema.get("type"), re.match(r"[a-z]+_(\d+)_(\d+)_", str(name))
        found = {
            "id": str(name) if isinstance(name, int) else name or None,
            "schema": schema,
            "root": kind if isinstance(kind, str) else "any",
            "range": "-".join(bounds.groups()) if bounds else "",
        }
        yield _converted(found, SchemaRow, where)


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(read_jsonl(path), start=1):
        yield f"{path}, item {number}", row


def _converted(row: Mapping[str, Any], kind: type[R], where: str) -> R:
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{where}: {error}.", "docs/concodeeval.md tells the fields.") from None


def _unique(path: Path, rows: Iterable[R]) -> tuple[R, ...]:
    found = tuple(rows)
    twice = [name for name, count in Counter(row.id for row in found).items() if count > 1]
    if twice:
        raise DataInvalid(f"{path}: the id {twice[0]!r:.80} is there twice.", "Make ids unique.")
    if not found:
        raise DataInvalid(f"{path} holds nothing.", "Write a JSON object on each line.")
    return found
