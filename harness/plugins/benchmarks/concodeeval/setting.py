"""The common parts of ConCodeEval's two tasks.

The prompt ``paper`` has the authors' wording without chat markup, which the server adds. The
recorded data set has 300 of the authors' 602 schemas and no samples.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec
from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import SUMMARY_COLUMNS, Row, convert_row, read_unique, summary_statistics
from harness.errors import ConfigError, DataInvalid, DataMissing, reraise_as
from harness.plugins.benchmarks.concodeeval import representations
from harness.plugins.benchmarks.concodeeval.documents import FORMATS, Format, Mode
from harness.plugins.benchmarks.concodeeval.schema import (
    Constraints,
    Representation,
    Wording,
    keywords,
)
from harness.ports import DataTable, Task
from harness.prompts import Template, prompt_names, read_builtin, read_file
from harness.records import JsonObject, Message
from harness.scoring.validators import validator

BUILTIN = Path(__file__).with_name("builtin")
RECORDED = "concodeeval/scalar_schemas.jsonl"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

Label = Literal["yes", "no"]


class SchemaRow(msgspec.Struct, frozen=True):
    """A schema of the data set.

    ``root`` is its type, or "any" if it has no single type. ``range`` is the range in the name of
    the authors' file, such as "0-10", or empty.
    """

    id: str
    schema: JsonObject
    root: str = "any"
    range: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 (hex digits) of the schema, the same for duplicates."""
        text = msgspec.json.encode(self.schema, order="deterministic")
        return hashlib.sha256(text).hexdigest()


class Sample(msgspec.Struct, frozen=True):
    """A value, with its labels under strict validation and under the authors' code."""

    id: str
    schema_id: str
    value: Any
    label: Label  # whether the value is valid under Draft 2020-12, formats included
    paper_label: Label  # the same under the authors' code: Draft 7, no formats, Python's floats


class Benchmark(NamedTuple):
    """A data set: its schemas, their samples, and a hash of its files."""

    schemas: tuple[SchemaRow, ...]
    samples: Mapping[str, Sequence[Sample]]
    digest: str


def read_benchmark(dataset: str, data: DataFolder) -> Benchmark:
    """Read a data set, given by its name (``builtin``, ``recorded``) or its path."""
    if dataset == "recorded":
        path = data.file(RECORDED)
    elif dataset == "builtin":
        path = BUILTIN
    else:
        path = data.file_or_folder(dataset)
    if not path.is_dir():
        return Benchmark(tuple(read_unique(path, _schema)), {}, sha256(path))
    files = (path / "schemas.jsonl", path / "validation.jsonl")
    for file in files:
        if not file.is_file():
            remedy = "Make a benchmark: harness build concodeeval."
            raise DataMissing(f"{path} has no {file.name}.", remedy)
    schemas = tuple(read_unique(files[0], _schema))
    samples: dict[str, list[Sample]] = {row.id: [] for row in schemas}
    for sample in read_unique(files[1], lambda row, where: convert_row(row, Sample, where)):
        if sample.schema_id not in samples:
            problem = f"{files[1]}: the sample {sample.id!r:.80} names an unknown schema"
            raise DataInvalid(f"{problem} ({sample.schema_id!r:.80}).")
        samples[sample.schema_id].append(sample)
    digest = hashlib.sha256(" ".join(map(sha256, files)).encode()).hexdigest()
    return Benchmark(schemas, samples, digest)


def _schema(row: Row, where: str) -> SchemaRow:
    schema = row.get("schema")
    if not isinstance(schema, dict):
        raise DataInvalid(f"{where}: 'schema' is missing or not a JSON object.")
    name = row.get("id", Path(str(row.get("file", ""))).stem)  # string_0_100_i_15.json
    if name == "":
        name = row.get("idx")  # the authors' recorded samples
    fields = {"id": name or None, "schema": schema}
    if isinstance(name, int):
        fields["id"] = str(name)
    kind = schema.get("type")
    if isinstance(kind, str):
        fields["root"] = kind
    if bounds := re.match(r"[a-z]+_(\d+)_(\d+)_", str(name)):
        fields["range"] = "-".join(bounds.groups())
    return convert_row(fields, SchemaRow, where)


_PAPER = "Kammakomati et al. 2024, arXiv 2407.03387"
NAMES: Mapping[Representation | Format, str] = {  # their names in prompts
    "json": "JSON",
    "yaml": "YAML",
    "xml": "XML",
    "python": "Python",
    "natural_language": "natural language",
}
FOLDER = "concodeeval"


class ConCodeEval(Task[Any]):
    """Base class of ConCodeEval's two tasks. The subclasses document the options."""

    part: ClassVar[Literal["generation", "validation"]]
    prompts: ClassVar[tuple[str, ...]]  # names of the built-in prompts: ours, then the authors'
    prompt_fields: ClassVar[frozenset[str]]  # the fields that a prompt template may use
    on_truncated = "grade"

    def __init__(
        self,
        dataset: str = "builtin",
        representation: Representation = "json",
        outputs: list[Format] = list(FORMATS),  # noqa: B006 (read only)
        prompt: str = "chat",
        wording: Wording | None = None,
        mode: Mode = "strict",
        *,
        data: DataFolder,
    ) -> None:
        if not outputs or len(set(outputs)) < len(outputs):
            raise ConfigError(f"task.outputs must name some of {', '.join(FORMATS)}, each once.")
        self.representation = representation
        self.outputs = outputs
        self.mode = mode
        self._find_prompts(prompt, data)
        self.benchmark = read_benchmark(dataset, data)
        self._dataset = dataset
        self._wording: Wording = wording or ("paper" if prompt in self.prompts[1:] else "corrected")
        for row in self.benchmark.schemas:  # report invalid schemas before any call
            with reraise_as(DataInvalid, f"The schema {row.id!r:.80}: "):
                if mode == "paper":  # its validator detects an invalid schema only with an answer
                    validator({**row.schema, "$schema": DRAFT_7})
                validator(row.schema, mode=mode)
        if self.part == "validation" and not any(self.benchmark.samples.values()):
            problem = f"The data set {dataset!r} has schemas but no samples to judge."
            raise ConfigError(problem, "Use builtin, or make one: harness build concodeeval.")

    def _find_prompts(self, prompt: str, data: DataFolder) -> None:
        name = f"{FOLDER}/{self.part}_{prompt}"
        is_english = self.part == "generation" and self.representation == "natural_language"
        self._own_prompt = prompt not in self.prompts
        self._system: Template | None = None
        if self._own_prompt:
            self._user = read_file(data.file(prompt), f"task.prompt ({prompt})")
        elif is_english and prompt != "chat":
            self._user = read_builtin(f"{FOLDER}/natural_language")
        else:
            self._user = read_builtin(name)
            if f"{name}.system" in prompt_names(FOLDER):
                self._system = read_builtin(f"{name}.system")
        self._few_shot: Template | None = None
        if prompt in self.prompts[1:]:
            self._few_shot = read_builtin(f"{FOLDER}/{self.part}_paper_few_shot")
        elif "shots" in self._user.fields:
            self._few_shot = self._user
        self._user.check_fields(self.prompt_fields)

    @cached_property
    def schemas(self) -> Sequence[tuple[SchemaRow, str, Constraints]]:
        """Each schema with its text in the prompt and its constraints."""
        schemas = []
        for row in self.benchmark.schemas:
            text, spans = representations.rendered(row.schema, self.representation, self._wording)
            schemas.append((row, text, Constraints(row.schema, text, spans)))
        return schemas

    @override
    def describe(self) -> Iterator[DataTable]:
        """Yield tables of schema lengths and of schemas per keyword."""
        schemas = [row.schema for row in self.benchmark.schemas]
        lengths: dict[str, list[tuple[str | float | None, ...]]] = {"characters": [], "words": []}
        for name in representations.REPRESENTATIONS:
            texts = [representations.render(schema, name, self._wording) for schema in schemas]
            words = [len(text.split()) for text in texts]
            lengths["characters"].append((NAMES[name], *summary_statistics(list(map(len, texts)))))
            lengths["words"].append((NAMES[name], *summary_statistics(words)))
        for unit, rows in lengths.items():
            yield DataTable((f"{unit} per schema", *SUMMARY_COLUMNS), rows, f"{_PAPER}, table 3")
        counts = Counter[str]()
        for schema in schemas:
            counts.update({keyword for _, keyword, _ in keywords(schema)})
        yield DataTable(("keyword", "schemas"), counts.most_common())

    def groups(self, row: SchemaRow, output: Format) -> dict[str, str]:
        """Return an instance's groups."""
        groups = {"output": output, "representation": self.representation, "root": row.root}
        if row.range:
            groups["range"] = row.range
        return groups

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data set's name, and hashes of its files and of the prompts."""
        templates = [self._system, self._user, self._few_shot]
        is_english = self.representation == "natural_language" and self._wording == "paper"
        if is_english and any(row.root in ("array", "object") for row in self.benchmark.schemas):
            templates.append(read_builtin(representations.RECORDED_ENGLISH))
        texts = [template.text for template in templates if template]
        return {
            "dataset": self._dataset,
            "dataset_sha256": self.benchmark.digest,
            "prompt_sha256": hashlib.sha256("\0".join(texts).encode()).hexdigest(),
        }

    def conversation(
        self, fields: Mapping[str, str], shots: Sequence[Mapping[str, str]]
    ) -> tuple[Message, ...]:
        """Return the conversation that asks about an instance.

        ``fields`` and ``shots`` have the values of the template's fields.
        """
        values = {**fields, "input": NAMES[self.representation], "shots": list(shots)}
        if shots:
            if self._few_shot is None:
                remedy = "Set task.shots.form to turns, or write a template with 'shots' in it."
                raise ConfigError("task.shots: the prompt has no place for shots.", remedy)
            return (Message("user", self._few_shot.render(values)),)
        question = Message("user", self._user.render(values))
        if self._system is None:
            return (question,)
        return (Message("system", self._system.render(values)), question)
