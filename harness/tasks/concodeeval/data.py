"""The schemas of ConCodeEval, and samples that are valid against them or break one constraint.

The recorded data set has 300 of the authors' 602 schemas, without samples.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.datasets.folder import DataFolder, sha256
from harness.errors import DataInvalid, DataMissing
from harness.scoring.validators import Mode, validator
from harness.tasks._rows import Row, converted, rows, unique
from harness.tasks.concodeeval.schema import as_schema

BUILTIN = Path(__file__).with_name("builtin")
RECORDED = "concodeeval/scalar_schemas.jsonl"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

Label = Literal["yes", "no"]


class SchemaRow(msgspec.Struct, frozen=True):
    """A schema.

    Attributes:
        root: Its type; "any" if it names none or several.
        range: Range of the values in it, from the authors' file names, such as "0-10".
    """

    id: str
    schema: dict[str, Any]
    root: str = "any"
    range: str = ""

    @property
    def digest(self) -> str:
        """A hash of the schema's content: 48 of the authors' 300 schemas are repetitions."""
        text = msgspec.json.encode(self.schema, order="deterministic")
        return hashlib.sha256(text).hexdigest()


class Sample(msgspec.Struct, frozen=True):
    """A value to be judged against a schema.

    Attributes:
        label: Whether it is valid (Draft 2020-12, formats asserted, exact numbers).
        paper_label: Whether it is valid by the authors' code (Draft 7, no formats, floats).
    """

    id: str
    schema_id: str
    value: Any
    label: Label
    paper_label: Label


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set: its samples by the id of their schema, and a hash of its files."""

    schemas: tuple[SchemaRow, ...]
    samples: Mapping[str, Sequence[Sample]]
    digest: str


def read_benchmark(dataset: str, data: DataFolder) -> Benchmark:
    """Read a data set by its name or path."""
    if dataset == "recorded":
        path = data.file(
            RECORDED,
            remedy="It has no licence, so it is not fetched: docs/concodeeval.md names its source.",
        )
    else:
        path = BUILTIN if dataset == "builtin" else data.place(dataset)
    if not path.is_dir():
        return Benchmark(_schemas(path), {}, sha256(path))
    files = [path / "schemas.jsonl", path / "validation.jsonl"]
    for file in files:
        if not file.is_file():
            raise DataMissing(
                f"{path} has no {file.name}.", "Make a benchmark: harness build concodeeval."
            )
    schemas = _schemas(files[0])
    samples: dict[str, list[Sample]] = {row.id: [] for row in schemas}
    for sample in unique((where, converted(row, Sample, where)) for where, row in rows(files[1])):
        if sample.schema_id not in samples:
            raise DataInvalid(
                f"{files[1]}: the sample {sample.id!r:.80} names the schema "
                f"{sample.schema_id!r:.80}, which does not exist."
            )
        samples[sample.schema_id].append(sample)
    digest = hashlib.sha256(" ".join(map(sha256, files)).encode()).hexdigest()
    return Benchmark(schemas, samples, digest)


def refuse_broken(schemas: Sequence[SchemaRow], mode: Mode) -> None:
    """Compile all schemas, so that a broken one is reported before any call is made.

    The validator of `paper` mode finds a broken schema only when an answer reaches it, so for that
    mode the strict one compiles them first, under the rules of the same draft.
    """
    for row in schemas:
        try:
            if mode == "paper":
                validator({**row.schema, "$schema": DRAFT_7})
            validator(row.schema, mode=mode)
        except DataInvalid as error:
            raise DataInvalid(f"The schema {row.id!r:.80}: {error.message}", error.remedy) from None


def _schemas(path: Path) -> tuple[SchemaRow, ...]:
    return tuple(unique((where, _schema(row, where)) for where, row in rows(path)))


def _schema(row: Row, where: str) -> SchemaRow:
    if not isinstance(row.get("schema"), dict):
        raise DataInvalid(f"{where}: 'schema' is missing or not a JSON object.")
    schema = as_schema(row["schema"], f"{where}: the")
    name = row.get("id", Path(str(row.get("file", ""))).stem)  # string_0_100_i_15.json
    kind, bounds = schema.get("type"), re.match(r"[a-z]+_(\d+)_(\d+)_", str(name))
    found = {
        "id": str(name) if isinstance(name, int) else name or None,
        "schema": schema,
        "root": kind if isinstance(kind, str) else "any",
        "range": "-".join(bounds.groups()) if bounds else "",
    }
    return converted(found, SchemaRow, where)
