"""Reads tasks in the authors' two JSON forms and in YAML, and files of task categories.

Texts are kept exactly, because the authors' prompts depend on every space. The first JSON form
(natural-instructions-v1) has its examples under ``Examples``. In the second, the examples are next
to the other fields, the definition is a list, and instances have ids. The first form has no
categories, so a YAML file maps task names to categories.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from harness.config import yaml_text
from harness.datasets.catalogue import decode_json_as, members
from harness.datasets.rows import convert_row, iter_unique
from harness.errors import DataInvalid, reraise_as, unreadable_file_error
from harness.records import JsonObject

ABSENT = "-"  # stands for a missing field in the authors' files

TEXT_FIELDS: Mapping[str, str] = {  # authors' name of a field: its name here and in YAML
    "Title": "title",
    "Definition": "definition",
    "Prompt": "prompt",
    "Things to Avoid": "things_to_avoid",
    "Emphasis & Caution": "emphasis_and_caution",
}

SUFFIXES = (".json", ".yaml", ".yml")
SHIPPED = Path(__file__).with_name("categories.yaml")
# Beginnings of the names of the paper's 12 evaluation tasks; it tunes models on the others.
EVALUATION = frozenset(f"subtask{n:03}" for n in (2, 3, 5, 8, 22, 33, 34, 39, 40, 44, 45, 52))
CLASSIFICATION = "classification"  # the category whose answers are labels


class Example(Struct, frozen=True):
    """An input with a right or wrong output."""

    input: str
    output: str
    reason: str | None = None
    suggestion: str | None = None


class Entry(Struct, frozen=True):
    """An instance: an id that is unique within the task, an input and its reference outputs."""

    id: str
    input: str
    outputs: tuple[str, ...]


class Instruction(Struct, frozen=True):
    """The instruction of a task. A missing text is None or `ABSENT`."""

    title: str | None = None
    definition: str | None = None
    prompt: str | None = None
    things_to_avoid: str | None = None
    emphasis_and_caution: str | None = None
    positive: tuple[Example, ...] = ()
    negative: tuple[Example, ...] = ()

    def text(self, field: str) -> str | None:
        """Return the text of a field (named as by the authors), or None."""
        value: str | None = getattr(self, TEXT_FIELDS[field])
        return None if value == ABSENT else value


class NaturalTask(Struct, frozen=True):
    """A task of the benchmark, named after its file."""

    name: str
    instruction: Instruction
    entries: tuple[Entry, ...]
    category: str | None = None


_Outputs = str | Annotated[list[str], Meta(min_length=1)]


class _Example(Struct):
    input: str
    output: _Outputs
    reason: str | None = None
    explanation: str | None = None  # its name in the second JSON form
    suggestion: str | None = None

    def example(self) -> Example:
        reason = self.explanation if self.reason is None else self.reason
        return Example(self.input, _list(self.output)[0], reason, self.suggestion)


class _Instance(Struct):
    input: str
    output: _Outputs
    id: str | int | None = None


class _Task(Struct):
    instances: Annotated[list[_Instance], Meta(min_length=1)]
    category: str | None = None
    categories: list[str] = []
    title: str | None = None
    definition: str | list[str] | None = None
    prompt: str | None = None
    things_to_avoid: str | None = None
    emphasis_and_caution: str | None = None
    positive_examples: list[_Example] = []
    negative_examples: list[_Example] = []


_EXAMPLES = ("positive_examples", "negative_examples")
_OTHERS = ("instances", "categories", *_EXAMPLES)
# By key of a JSON form: the key in YAML.
_JSON_KEYS = {**TEXT_FIELDS, **{key.title().replace("_", " "): key for key in _OTHERS}}


def task_files(path: Path) -> dict[str, Path]:
    """Map task names to their files, sorted by name."""
    files = [path]
    try:
        if not path.is_file():
            files = sorted(file for file in path.iterdir() if file.is_file())
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    files_by_task: dict[str, Path] = {}
    for file in files:
        if file.suffix not in SUFFIXES:
            continue
        if file.stem in files_by_task:
            raise DataInvalid(f"{path}: there are two tasks named {file.stem!r}.", "Keep one.")
        files_by_task[file.stem] = file
    if not files_by_task:
        raise DataInvalid(f"{path} contains no task.", "Tasks are files *.json or *.yaml.")
    return files_by_task


def read_task(path: Path) -> NaturalTask:
    """Read a task from a JSON or YAML file."""
    tree = _from_json(path) if path.suffix == ".json" else _from_yaml(path)
    raw = convert_row(tree, _Task, str(path))
    if isinstance(raw.definition, list):
        raw.definition = "\n".join(raw.definition)
    instruction = Instruction(
        **{name: getattr(raw, name) for name in TEXT_FIELDS.values()},
        positive=tuple(example.example() for example in raw.positive_examples),
        negative=tuple(example.example() for example in raw.negative_examples),
    )
    category = raw.category or next(iter(raw.categories), None)
    entries = []
    for index, instance in enumerate(raw.instances):
        name = str(index if instance.id is None else instance.id)
        entry = Entry(name, instance.input, tuple(_list(instance.output)))
        entries.append((str(path), entry))
    return NaturalTask(path.stem, instruction, tuple(iter_unique(entries)), category)


def _list(output: str | list[str]) -> list[str]:
    return [output] if isinstance(output, str) else output


def _from_json(path: Path) -> JsonObject:
    """Return the content of a task's JSON file, with YAML's keys."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    raw = decode_json_as(content, JsonObject, f"{path}: not JSON")
    examples = raw.get("Examples")
    if isinstance(examples, dict):
        raw |= examples
    tree = {name: raw[key] for key, name in _JSON_KEYS.items() if key in raw}
    for name in _EXAMPLES:
        if isinstance(tree.get(name), list):  # a file without any has the text "-"
            tree[name] = [entry for entry in tree[name] if entry != ABSENT]
    return tree


def _from_yaml(path: Path) -> JsonObject:
    """Return the content of a YAML file. Raise DataInvalid for an unknown key."""
    tree = _yaml(path, "task", "It must contain at least 'instances:'.")
    convert_row(tree, _Task, str(path), ())
    for key in ("instances", *_EXAMPLES):
        form = _Instance if key == "instances" else _Example
        for entry in tree.get(key, ()):
            convert_row(entry, form, f"{path}, {key}", ())
    return tree


def read_categories(path: Path) -> dict[str, str]:
    """Return a file's mapping of task names or patterns to categories."""
    raw = _yaml(path, "list of categories", "Write 'TASK: CATEGORY', one per line.")
    for pattern, category in raw.items():
        if not isinstance(category, str) or not category.strip():
            raise DataInvalid(f"{path}: the category of {pattern!r:.80} must be text.")
    return raw


def category_of(name: str, *categories: Mapping[str, str]) -> str | None:
    """Return the category of the first pattern that matches a task's name, or None."""
    for mapping in categories:
        for pattern, category in mapping.items():
            if fnmatchcase(name, pattern):
                return category
    return None


def _yaml(path: Path, what: str, hint: str) -> JsonObject:
    with reraise_as(DataInvalid):
        return yaml_text.read_mapping(path, what, hint)


_ANSWERS = re.compile(r"(?:.*/)?predictions/gpt3_outputs/([^@/]+)@(_[^@/]+)@(\d{1,4})_\d+\.json")


class _Answer(msgspec.Struct):
    index: int
    output: str


class _Predictions(msgspec.Struct):
    predictions: list[_Answer]


def write_predictions(archive: Path, tasks: Collection[str]) -> Iterator[bytes]:
    """Yield the lines of ``gpt3_predictions.jsonl``: GPT-3's answers to the named tasks."""

    def described(name: str) -> re.Match[str] | None:
        match = _ANSWERS.fullmatch(name)
        return match if match and match[1] in tasks else None

    row: JsonObject = {}
    for name, content in members(archive, described):
        task, encoding, examples = described(name).groups()  # type: ignore[union-attr]
        answers = decode_json_as(
            content, _Predictions, f"{archive}: {name} is not a file of answers"
        )
        row = {"task": task, "encoding": encoding}
        row |= {"fields": encoding.removeprefix("_").split("_"), "n_examples": int(examples)}
        for answer in answers.predictions:
            answered = {"index": answer.index, "output": answer.output}
            yield msgspec.json.encode(row | answered) + b"\n"
    if not row:
        raise DataInvalid(f"{archive}: it has no answers of GPT-3.")
