"""Reading tasks: the authors' first JSON form, the second one, and one's own YAML.

The first (``subtask*.json``, natural-instructions-v1) keeps its examples under ``Examples``; the
second (``task*.json``, natural-instructions) has them beside the other fields, a list of
definitions, and instances with ids. In YAML the same fields are written so:

    category: classification
    definition: Say whether the fruit is red or yellow.
    prompt: Which colour?
    positive_examples:
      - {input: cherry, output: red, reason: Cherries are red.}
    negative_examples:
      - {input: lemon, output: sour, reason: That is a taste., suggestion: Name the colour.}
    instances:
      - {input: banana, output: yellow}
      - {input: apple, output: [red, yellow]}

besides ``title``, ``things_to_avoid``, ``emphasis_and_caution``, and an ``id`` for an instance.
What is none of these is refused with the file and the place.

>>> read_task(Path("subtask003.json")).instruction.prompt  # doctest: +SKIP
'Ask a question on "event duration" based on the provided sentence.'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from harness.config import loading as yaml_files
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.records import encodable
from harness.tasks.natural_instructions.schema import (
    ABSENT,
    Entry,
    Example,
    Instruction,
    NaturalTask,
)

SUFFIXES = (".json", ".yaml", ".yml")

T = TypeVar("T")

_Outputs = str | Annotated[list[str], Meta(min_length=1)]


class _JsonExample(Struct):
    input: str
    output: _Outputs
    reason: str | None = None
    explanation: str | None = None  # its name in the second form
    suggestion: str | None = None


class _JsonInstance(Struct):
    input: str
    output: _Outputs
    id: str | None = None


_Examples = list[_JsonExample | str]


class _JsonExamples(Struct):
    positive: _Examples = msgspec.field(default_factory=list, name="Positive Examples")
    negative: _Examples = msgspec.field(default_factory=list, name="Negative Examples")


class _JsonTask(Struct):
    """Both JSON forms: neither has a field that means something else in the other."""

    instances: Annotated[list[_JsonInstance], Meta(min_length=1)] = msgspec.field(name="Instances")
    definition: str | list[str] | None = msgspec.field(default=None, name="Definition")
    title: str | None = msgspec.field(default=None, name="Title")
    prompt: str | None = msgspec.field(default=None, name="Prompt")
    avoid: str | None = msgspec.field(default=None, name="Things to Avoid")
    emphasis: str | None = msgspec.field(default=None, name="Emphasis & Caution")
    examples: _JsonExamples | None = msgspec.field(default=None, name="Examples")
    positive: _Examples = msgspec.field(default_factory=list, name="Positive Examples")
    negative: _Examples = msgspec.field(default_factory=list, name="Negative Examples")
    categories: list[str] = msgspec.field(default_factory=list, name="Categories")


class _YamlTask(Struct, forbid_unknown_fields=True):
    instances: Annotated[list[_YamlInstance], Meta(min_length=1)]
    category: str | None = None
    title: str | None = None
    definition: str | None = None
    prompt: str | None = None
    things_to_avoid: str | None = None
    emphasis_and_caution: str | None = None
    positive_examples: list[_YamlExample] = []
    negative_examples: list[_YamlExample] = []


class _YamlExample(Struct, forbid_unknown_fields=True):
    input: str
    output: str
    reason: str | None = None
    suggestion: str | None = None


class _YamlInstance(Struct, forbid_unknown_fields=True):
    input: str
    output: _Outputs
    id: str | int | None = None


def task_files(path: Path) -> dict[str, Path]:
    """The tasks of a folder, or the one of a file: name to file, by name.

    Raises: DataInvalid where there is none, or one name is there twice.
    """
    files = [path] if path.is_file() else sorted(_listed(path))
    found: dict[str, Path] = {}
    for file in files:
        if file.suffix not in SUFFIXES:
            continue
        if file.stem in found:
            raise DataInvalid(f"{path}: the task {file.stem!r} is there twice.", "Keep one.")
        found[file.stem] = file
    if not found:
        raise DataInvalid(f"{path} holds no task.", "Tasks are files *.json or *.yaml.")
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return [file for file in folder.iterdir() if file.is_file()]
    except OSError as error:
        raise _unreadable(folder, error) from None


def read_task(path: Path) -> NaturalTask:
    """The task of a file.

    Raises: DataInvalid naming file and place; DataMissing where it cannot be read.
    """
    task = _from_json(path) if path.suffix == ".json" else _from_yaml(path)
    seen: set[str] = set()
    for entry in task.entries:
        if entry.id in seen:
            raise DataInvalid(f"{path}: the instance {entry.id!r:.80} is there twice.")
        seen.add(entry.id)
    return task


def _from_json(path: Path) -> NaturalTask:
    try:
        raw = msgspec.json.decode(path.read_bytes(), type=_JsonTask)
    except OSError as error:
        raise _unreadable(path, error) from None
    except msgspec.ValidationError as error:
        raise _misfit(path, error) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{path}: not JSON ({error}).") from None
    examples = raw.examples or _JsonExamples(raw.positive, raw.negative)
    definition = raw.definition
    return NaturalTask(
        name=path.stem,
        instruction=Instruction(
            title=raw.title,
            definition="\n".join(definition) if isinstance(definition, list) else definition,
            prompt=raw.prompt,
            things_to_avoid=raw.avoid,
            emphasis_and_caution=raw.emphasis,
            positive=_examples(examples.positive, f"{path}, Positive Examples"),
            negative=_examples(examples.negative, f"{path}, Negative Examples"),
        ),
        entries=_entries((found.id, found.input, found.output) for found in raw.instances),
        category=raw.categories[0] if raw.categories else None,
    )


def _examples(raw: Sequence[_JsonExample | str], where: str) -> tuple[Example, ...]:
    """The examples; a file without any holds the text "-" in their place."""
    found = []
    for number, example in enumerate(raw, start=1):
        if isinstance(example, str):
            if example.strip() != ABSENT:
                raise DataInvalid(f"{where}, item {number}: must be an example, not a text.")
            continue
        output = example.output if isinstance(example.output, str) else example.output[0]
        reason = example.explanation if example.reason is None else example.reason
        found.append(Example(example.input, output, reason, example.suggestion))
    return tuple(found)


def _entries(raw: Iterable[tuple[str | int | None, str, _Outputs]]) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            str(index if name is None else name),
            text,
            (output,) if isinstance(output, str) else tuple(output),
        )
        for index, (name, text, output) in enumerate(raw)
    )


def _from_yaml(path: Path) -> NaturalTask:
    try:
        tree = yaml_files.read(path, "task", "It must hold at least 'instances:'.")
    except ConfigError as error:
        raise DataInvalid(error.message, error.remedy) from None
    known = {field.name for field in msgspec.structs.fields(_YamlTask)}
    for key in tree:
        if key not in known:
            raise DataInvalid(f"{path}: unknown key {key!r:.80}.", nearest(key, known))
    try:
        raw = msgspec.convert(tree, _YamlTask)
    except msgspec.ValidationError as error:
        raise _misfit(path, error) from None

    def examples(listed: Iterable[_YamlExample]) -> tuple[Example, ...]:
        return tuple(Example(e.input, e.output, e.reason, e.suggestion) for e in listed)

    return NaturalTask(
        name=path.stem,
        instruction=Instruction(
            title=raw.title,
            definition=raw.definition,
            prompt=raw.prompt,
            things_to_avoid=raw.things_to_avoid,
            emphasis_and_caution=raw.emphasis_and_caution,
            positive=examples(raw.positive_examples),
            negative=examples(raw.negative_examples),
        ),
        entries=_entries((found.id, found.input, found.output) for found in raw.instances),
        category=raw.category,
    )


_NOT_TEXT = re.compile(r"Expected `str.*got `(bool|int|float|null)`")


def _misfit(path: Path, error: msgspec.ValidationError) -> DataInvalid:
    problem = encodable(str(error))
    remedy = "Put it in quotes." if _NOT_TEXT.match(problem) else ""
    return DataInvalid(f"{path}: {problem}.", remedy)


def _unreadable(path: Path, error: OSError) -> DataMissing:
    return DataMissing(
        f"Cannot read {path}: {error.strerror}.", "Check the path and its permissions."
    )
