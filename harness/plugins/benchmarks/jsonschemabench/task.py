"""JSONSchemaBench: generate values that satisfy real-world JSON Schemas.

Geng et al. 2025, "Generating Structured Outputs from Language Models: Benchmark and Studies" (arXiv
2501.10868). The benchmark measures constrained decoding (``decoding.constraint: task``): which
schemas a provider accepts, and whether the answers satisfy them. The prompt ``copy`` instead asks
for copies of MaskBench's labelled instances: a provider should prevent only copies of invalid ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from typing_extensions import override

from harness.datasets.catalogue import decode_json_as, members
from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import convert_row, iter_unique, read_rows
from harness.errors import ConfigError, DataInvalid, suggest_name
from harness.ports import DataTable, Task, read_paper
from harness.prompts import prompt_names, read_builtin, read_file
from harness.records import ConstraintKind, DecodingConstraint, Instance, JsonObject, Message, Score
from harness.scoring import validators
from harness.scoring.validators import (
    BlockExtraction,
    NoAnswerBlock,
    Undecided,
    UnparseableDocument,
    Validator,
    schemas,
)

PUBLIC = "jsonschemabench/schemas.jsonl"
"""Path of the published data in the data folder."""
BUILTIN = Path(__file__).with_name("builtin.jsonl")
FOLDER = "jsonschemabench"
COPY = "copy"
PROMPTS = ("paper", "lm_eval", "free", COPY)

Verdicts = Literal["strict", "official"]

DECLARED = "declared"
JSON = "json"
COMPLIANT = "compliant"
# Names of the scores for copied instances (`JSONSchemaBenchTask.score`).
OVER = "over_constrained"
UNDER = "under_constrained"

ALWAYS_REFUSED = frozenset({"ipv4", "ipv6", "uuid"})
"""Formats (of JSON Schema's keyword ``format``) in which the official verdicts accept no value."""


class LabelledInstance(Struct, frozen=True):
    """A JSON value, and whether the data set labels it as valid."""

    data: Any
    valid: bool
    description: str = ""


class SchemaItem(Struct, frozen=True):
    """A schema with its labelled instances, and the instance to copy (``asked``), if any."""

    id: str
    dataset: str
    schema: JsonObject | bool
    instances: tuple[LabelledInstance, ...]
    asked: LabelledInstance | None = None


One: TypeAlias = Instance[SchemaItem]


class JSONSchemaBenchTask(Task[SchemaItem]):
    """Values that satisfy real-world JSON Schemas (Geng et al. 2025).

    Args:
        dataset: ``builtin`` (a small example), ``public`` (the published schemas), or the path of a
            JSONL file of schemas with name, dataset, schema and instances.
        datasets: The data sets to use, such as ``Github_easy``. If empty, all are used.
        prompt: paper (the authors' chat messages), lm_eval (lm-eval's prompt), free (reasoning,
            then a block), copy (repeat a labelled instance without its schema), or your template.
        verdicts: ``strict`` follows each schema's own draft; ``official`` agrees with lm-eval.
    """

    on_truncated = "fail"
    constraint_kind: ConstraintKind = "json_schema"
    table = read_paper(__file__).table

    def __init__(
        self,
        dataset: str = "builtin",
        datasets: list[str] | None = None,
        prompt: str = "paper",
        verdicts: Verdicts = "strict",
        *,
        data: DataFolder,
    ) -> None:
        self.dataset = dataset
        self._datasets = datasets or []
        self._verdicts = verdicts
        names = {"builtin": str(BUILTIN), "public": PUBLIC}
        self.path = data.file(names.get(dataset, dataset))
        self._copies = prompt == COPY
        self._system = None
        if prompt in PROMPTS:
            self._user = read_builtin(f"{FOLDER}/{prompt}")
            if f"{FOLDER}/{prompt}.system" in prompt_names(FOLDER):
                self._system = read_builtin(f"{FOLDER}/{prompt}.system")
        else:
            self._user = read_file(data.file(prompt), f"task.prompt ({prompt})")
        field = "instance" if self._copies else "schema"
        if self._user.fields != {field}:
            remedy = f"Write {{{{ {field} }}}} where it belongs."
            raise ConfigError(f"{self._user.name}: the only field must be {field!r}.", remedy)
        self._official: Any = None
        if verdicts == "official":
            self._official = _official()

    def instances(self) -> Iterator[One]:
        """Yield the schemas in file order or, for the prompt ``copy``, their labelled instances.

        Labelled instances have the group ``label`` (valid or invalid) and one cluster per schema.
        """
        for item in self._items():
            groups = {"dataset": item.dataset}
            if not self._copies:
                yield Instance(item.id, item, groups)
                continue
            for number, labelled in enumerate(item.instances):
                copy_item = SchemaItem(item.id, item.dataset, item.schema, item.instances, labelled)
                label = "valid" if labelled.valid else "invalid"
                yield Instance(f"{item.id}/{number}", copy_item, groups | {"label": label}, item.id)

    def _items(self) -> Iterator[SchemaItem]:
        datasets = set()
        for item in read_items(self.path):
            datasets.add(item.dataset)
            if not self._datasets or item.dataset in self._datasets:
                yield item
        if unknown := sorted(set(self._datasets) - datasets):
            remedy = suggest_name(unknown[0], datasets)
            raise ConfigError(f"task.datasets: there is no {unknown[0]!r}.", remedy)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data set, the kind of verdicts, hashes, and the versions of the validators."""
        texts = [template.text for template in (self._system, self._user) if template]
        fields = {
            "dataset": self.dataset,
            "dataset_sha256": sha256(self.path),
            "prompt_sha256": hashlib.sha256("\0".join(texts).encode()).hexdigest(),
            "verdicts": self._verdicts,
        }
        versions = {"jsonschema_rs": version("jsonschema-rs")}
        if self._official:
            versions = self._official.versions()
        return fields | versions

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the prompt. The harness adds shots as further turns."""
        item = instance.data
        fields = {"schema": json.dumps(item.schema)}
        if item.asked is not None:
            fields = {"instance": json.dumps(item.asked.data, ensure_ascii=False)}
        question = Message("user", self._user.render(fields))
        if self._system is None:
            return (question,)
        return (Message("system", self._system.render({})), question)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return ``declared``, ``json`` and the score that decides whether the answer passes.

        - ``declared``: whether the provider accepts the schema.
        - ``json``: whether the answer is JSON.
        - ``compliant``: whether the answer satisfies the schema. The details list the violations.
        - ``over_constrained`` (if a valid instance is to be copied): whether the answer differs
          from it.
        - ``under_constrained`` (if an invalid instance is to be copied): whether the answer
          violates the schema.

        A score that cannot be decided has no value.

        Raises:
            UnparseableDocument: If the answer is not JSON. The error has the scores.
        """
        item = instance.data
        copied = item.asked
        deciding = COMPLIANT
        if copied is not None:
            deciding = OVER if copied.valid else UNDER
        scores = _accepted(json=True)
        try:
            value = self._read(text)
        except UnparseableDocument as error:
            if error.kind == "limit":  # the official code reads it, or crashes
                return {**scores, deciding: Score(None, reason=str(error))}
            # Official verdicts may count an answer as JSON that cannot be read.
            is_json = self._official is not None and self._official.is_json(text)
            error.scores = {**self.score_of_no_answer(instance), JSON: Score(is_json)}
            raise
        if copied is not None and copied.valid:
            differs = _sorted(value) != _sorted(copied.data)
            reason = "another value than the valid one to copy" if differs else ""
            return {**scores, deciding: Score(differs, not differs, reason)}
        try:
            score = schemas.score_violations(
                _validator(item.schema, self._verdicts).violations(value)
            )
        except (Undecided, DataInvalid) as error:
            score = Score(None, reason=str(error)[: schemas.MAX_REASON_CHARS])
        if copied is not None and score.value is not None:
            score = Score(not score.value, score.passed, score.reason)
        return {**scores, deciding: score}

    def _read(self, text: str) -> Any:
        if self._official:
            return self._official.read(text)
        try:
            return validators.read(text)
        except UnparseableDocument:
            return validators.read(_first_block(text) or text)

    @override
    def extracted(self, instance: One, text: str) -> str | None:
        """Return the code block that is scored, or None if the whole answer is scored."""
        with contextlib.suppress(UnparseableDocument):
            validators.read(text)
            return None
        return _first_block(text) if self._verdicts == "strict" else None

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return the scores of an answer that is not JSON."""
        scores = _accepted(json=False)
        if instance.data.asked is None:
            scores[COMPLIANT] = Score(False, False, "not JSON")
        return scores

    @override
    def score_of_refused_constraint(self, instance: One) -> Mapping[str, Score]:
        """Return ``declared`` and, unless an instance is to be copied, ``compliant`` as False."""
        scores = {DECLARED: Score(False)}
        if instance.data.asked is None:
            scores[COMPLIANT] = Score(False, False, "the provider refuses the schema")
        return scores

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return feedback that says whether the value is right and, if not, asks for another."""
        deciding = next(score for name, score in scores.items() if name not in (DECLARED, JSON))
        if deciding.value is None:
            return "That value could not be checked. Please write a simpler one."
        if deciding.passed:
            return "That value is right."
        return f"That value is not right: {deciding.reason}. Please write it again."

    def reference(self, instance: One) -> str | None:
        """Return a JSON document that satisfies the schema, or None if none is known.

        It is the document to copy, if that is labelled valid; otherwise the first that is labelled
        valid and that our validator accepts.
        """
        to_copy = instance.data.asked
        if to_copy is not None and to_copy.valid:
            return json.dumps(to_copy.data, ensure_ascii=False)
        return self._first(instance.data, valid=True)

    @override
    def wrong_answer(self, instance: One) -> str | None:
        """Return the first instance labelled invalid that the validator rejects, or None."""
        return self._first(instance.data, valid=False)

    def _first(self, item: SchemaItem, *, valid: bool) -> str | None:
        for labelled in item.instances:
            if labelled.valid is valid and self._accepts(item, labelled.data) is valid:
                return json.dumps(labelled.data, ensure_ascii=False)
        return None

    def _accepts(self, item: SchemaItem, value: Any) -> bool | None:
        try:
            return not _validator(item.schema, self._verdicts).violations(value)
        except (Undecided, DataInvalid):
            return None

    @override
    def leaks(self, instance: One, shot: One) -> bool:
        """Return whether the shot's reference answer also satisfies the instance's schema."""
        reference = self.reference(shot)
        return reference is not None and bool(self._accepts(instance.data, json.loads(reference)))

    @override
    def constraint(self, instance: One) -> DecodingConstraint:
        """Return the instance's schema as the decoding constraint."""
        schema = instance.data.schema
        if schema is True:
            schema = {}
        elif schema is False:
            schema = {"not": {}}
        return DecodingConstraint(json_schema=schema)

    @override
    def describe(self) -> Iterator[DataTable]:
        """Yield tables of instances, keywords and formats, and of labels that seem wrong."""
        counts = defaultdict[str, Counter[str]](Counter)
        words = defaultdict[str, Counter[str]](Counter)
        doubtful: list[tuple[str, str, str, str]] = []
        for item in self._items():
            features = schemas.schema_features(item.schema)
            of_dataset = counts[item.dataset]
            of_dataset["schemas"] += 1
            of_dataset["valid"] += sum(labelled.valid for labelled in item.instances)
            of_dataset["invalid"] += sum(not labelled.valid for labelled in item.instances)
            of_dataset["refused"] += any(f"format: {name}" in features for name in ALWAYS_REFUSED)
            for word in features:
                words[word][item.dataset] += 1
            doubtful += self._doubtful(item)
        datasets = sorted(counts)
        rows: list[tuple[str | float | None, ...]] = []
        for name in datasets:
            numbers = [counts[name][key] for key in ("schemas", "valid", "invalid", "refused")]
            rows.append((name, *numbers))
        refused = f"with {', '.join(sorted(ALWAYS_REFUSED))}"
        yield DataTable(("data set", "schemas", "valid", "invalid", refused), rows)
        rows = []
        for word in sorted(words, key=lambda word: (-words[word].total(), word)):
            numbers = [words[word][name] for name in datasets]
            rows.append((word, words[word].total(), *numbers))
        yield DataTable(("keyword", "all", *datasets), rows)
        yield DataTable(("instance", "label", f"{self._verdicts} verdict", "keyword"), doubtful)

    def _doubtful(self, item: SchemaItem) -> Iterator[tuple[str, str, str, str]]:
        """Yield (id, label, verdict, deciding keyword) for each instance with a doubtful label."""
        names = {True: "valid", False: "invalid", None: "none"}
        for number, labelled in enumerate(item.instances):
            verdict = self._accepts(item, labelled.data)
            if verdict is not labelled.valid:
                keyword = deciding_keyword(item.schema, labelled.data, self._verdicts)
                yield f"{item.id}/{number}", names[labelled.valid], names[verdict], keyword


def _validator(schema: Any, verdicts: Verdicts) -> Validator:
    if verdicts == "strict":
        return validators.validator(schema)
    return validators.cached_validator(schema, _official().OfficialValidator)


def _official() -> Any:
    from harness.plugins.benchmarks.jsonschemabench import official  # takes 0.1 s (jsonschema)

    return official


def deciding_keyword(schema: Any, value: Any, verdicts: Verdicts) -> str:
    """Return the first keyword of a schema that a value violates.

    If the value violates none under ``verdicts``, the other kind of verdicts is used. The result is
    "" if neither finds a violation.
    """
    others: Verdicts = "official" if verdicts == "strict" else "strict"
    for engine in (verdicts, others):
        try:
            violations = _validator(schema, engine).violations(value)
        except (Undecided, DataInvalid):
            continue
        if violations:
            return violations[0].keyword
    return ""


def _first_block(text: str) -> str | None:
    try:
        return BlockExtraction("fence").read(text)
    except NoAnswerBlock:
        return None


def _accepted(*, json: bool) -> dict[str, Score]:
    return {DECLARED: Score(True), JSON: Score(json)}


def _sorted(value: Any) -> str:
    """Return a value as JSON with sorted members, because their order has no meaning."""
    return json.dumps(value, sort_keys=True, default=float)


class _Row(Struct):
    name: str
    schema: JsonObject | bool
    dataset: str = ""
    instances: tuple[LabelledInstance, ...] = ()


def read_items(path: Path) -> Iterator[SchemaItem]:
    """Yield the schemas of a file in order."""
    return iter_unique(_located_items(path))


def _located_items(path: Path) -> Iterator[tuple[str, SchemaItem]]:
    for where, raw in read_rows(path):
        row = convert_row(raw, _Row, where)
        yield where, SchemaItem(row.name, row.dataset or "none", row.schema, row.instances)


class _Schema(Struct):
    schema: Any
    tests: tuple[LabelledInstance, ...] = ()


def write_schemas(archive: Path, folder: str) -> Iterator[bytes]:
    """Yield the lines of ``jsonschemabench/schemas.jsonl``, made from a folder in an archive."""
    suits = re.compile(rf"{re.escape(folder)}/[^/]+\.json").fullmatch
    for name, content in members(archive, suits):
        schema_file = decode_json_as(
            content, _Schema, f"{archive}: {name} is not a file with a schema"
        )
        stem = PurePosixPath(name).stem
        # ``DATASET---NAME.json`` or, in two data sets, ``DATASET_NAME.json``
        separator = "---" if "---" in stem else "_"
        source = stem.split(separator)[0]
        row = {"name": stem, "dataset": source, "schema": schema_file.schema}
        yield msgspec.json.encode(row | {"instances": schema_file.tests}) + b"\n"
