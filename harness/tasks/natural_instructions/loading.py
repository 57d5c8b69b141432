"""Reads Natural Instructions tasks: the authors' two JSON forms, and YAML; and their categories.

A task is an instruction (title, definition, prompt, things to avoid, emphasis and caution, examples
of right and wrong answers) and instances (Mishra et al. 2022, arXiv 2104.08773, section 3). Texts
are kept exactly as in the file: the authors' prompts depend on every space.

The first JSON form (``subtask*.json``, natural-instructions-v1) keeps its examples under
``Examples``; the second (``task*.json``, natural-instructions) has them next to the other fields, a
list of definitions, and instances with ids. In YAML the same fields are written like this:

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

plus ``title``, ``things_to_avoid``, ``emphasis_and_caution``, and an ``id`` for an instance.

The first JSON form does not name a task's category, so a YAML file does. It maps names, or patterns
of names, to categories; the first that matches counts. Ours (``categories.yaml``) has what the
paper's table of tasks says.

>>> read_task(Path("subtask003.json")).instruction.prompt  # doctest: +SKIP
'Ask a question on "event duration" based on the provided sentence.'
>>> category_of("subtask003_mctaco_question_generation_event_duration", read_categories(SHIPPED))
'question generation'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from harness.config import loading as yaml_files
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.records import encodable

ABSENT = "-"
"""What the authors' files write for a field that a task does not have."""

TEXT_FIELDS: Mapping[str, str] = {
    "Title": "title",
    "Definition": "definition",
    "Prompt": "prompt",
    "Things to Avoid": "things_to_avoid",
    "Emphasis & Caution": "emphasis_and_caution",
}
"""The authors' name of a field -> its name here and in YAML."""

SUFFIXES = (".json", ".yaml", ".yml")
SHIPPED = Path(__file__).with_name("categories.yaml")
CLASSIFICATION = "classification"
"""The category whose answers are labels."""


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """An input with a right or a wrong answer.

    Attributes:
        reason: Why the answer is right or wrong.
        suggestion: How to correct a wrong one.
    """

    input: str
    output: str
    reason: str | None = None
    suggestion: str | None = None


class Entry(Struct, frozen=True):
    """An instance of a task: an input and all outputs that are right.

    Attributes:
        id: Unique within the task; its position in the file if the file gives none.
    """

    id: str
    input: str
    outputs: tuple[str, ...]


class Instruction(Struct, frozen=True):
    """The instruction of a task; None for fields that it does not have.

    >>> Instruction(prompt="Name a colour.", things_to_avoid="-").text("Things to Avoid") is None
    True
    """

    title: str | None = None
    definition: str | None = None
    prompt: str | None = None
    things_to_avoid: str | None = None
    emphasis_and_caution: str | None = None
    positive: tuple[Example, ...] = ()
    negative: tuple[Example, ...] = ()

    def text(self, field: str) -> str | None:
        """Return the field with the authors' name, or None if the task does not have it."""
        value: str | None = getattr(self, TEXT_FIELDS[field])
        return None if value == ABSENT else value


class NaturalTask(Struct, frozen=True):
    """A task of the benchmark.

    Attributes:
        name: Its file's name, without the suffix.
        category: None if the file does not say.
    """

    name: str
    instruction: Instruction
    entries: tuple[Entry, ...]
    category: str | None = None


_Outputs = str | Annotated[list[str], Meta(min_length=1)]


class _JsonExample(Struct):
    input: str
    output: _Outputs
    reason: str | None = None
    explanation: str | None = None  # its name in the second form
    suggestion: str | None = None


class _Instance(Struct):
    input: str
    output: _Outputs
    id: str | int | None = None


_Examples = list[_JsonExample | str]


class _JsonExamples(Struct):
    positive: _Examples = msgspec.field(default_factory=list, name="Positive Examples")
    negative: _Examples = msgspec.field(default_factory=list, name="Negative Examples")


class _JsonTask(_JsonExamples, kw_only=True):
    """Both JSON forms: no field of one means something else in the other."""

    instances: Annotated[list[_Instance], Meta(min_length=1)] = msgspec.field(name="Instances")
    definition: str | list[str] | None = msgspec.field(default=None, name="Definition")
    title: str | None = msgspec.field(default=None, name="Title")
    prompt: str | None = msgspec.field(default=None, name="Prompt")
    things_to_avoid: str | None = msgspec.field(default=None, name="Things to Avoid")
    emphasis_and_caution: str | None = msgspec.field(default=None, name="Emphasis & Caution")
    examples: _JsonExamples | None = msgspec.field(default=None, name="Examples")
    categories: list[str] = msgspec.field(default_factory=list, name="Categories")


class _YamlInstance(_Instance, forbid_unknown_fields=True):
    """As in JSON, but a mistyped field is an error."""


class _YamlTask(Struct, forbid_unknown_fields=True):
    instances: Annotated[list[_YamlInstance], Meta(min_length=1)]
    category: str | None = None
    title: str | None = None
    definition: str | None = None
    prompt: str | None = None
    things_to_avoid: str | None = None
    emphasis_and_caution: str | None = None
    positive_examples: tuple[Example, ...] = ()
    negative_examples: tuple[Example, ...] = ()


def task_files(path: Path) -> dict[str, Path]:
    """Return the tasks of a folder, or the one of a file: name to file, sorted by name.

    Raises:
        DataInvalid: There are none, or two have the same name.
        DataMissing: The folder cannot be read.
    """
    try:
        files = [path] if path.is_file() else sorted(f for f in path.iterdir() if f.is_file())
    except OSError as error:
        raise _unreadable(path, error) from None
    found: dict[str, Path] = {}
    for file in files:
        if file.suffix not in SUFFIXES:
            continue
        if file.stem in found:
            raise DataInvalid(f"{path}: there are two tasks named {file.stem!r}.", "Keep one.")
        found[file.stem] = file
    if not found:
        raise DataInvalid(f"{path} holds no task.", "Tasks are files *.json or *.yaml.")
    return found


def read_task(path: Path) -> NaturalTask:
    """Read the task in a file.

    Raises:
        DataInvalid: It is malformed; the message names file and place.
        DataMissing: It cannot be read.
    """
    task = _from_json(path) if path.suffix == ".json" else _from_yaml(path)
    seen: set[str] = set()
    for entry in task.entries:
        if entry.id in seen:
            raise DataInvalid(f"{path}: the instance id {entry.id!r:.80} occurs twice.")
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
    examples = raw.examples or raw
    if isinstance(raw.definition, list):
        raw.definition = "\n".join(raw.definition)
    return _task(
        path,
        raw,
        raw.categories[0] if raw.categories else None,
        _examples(examples.positive, f"{path}, Positive Examples"),
        _examples(examples.negative, f"{path}, Negative Examples"),
    )


def _examples(raw: Sequence[_JsonExample | str], where: str) -> tuple[Example, ...]:
    """Read the examples; a file without any has the text "-" instead."""
    found = []
    for number, example in enumerate(raw, start=1):
        if isinstance(example, str):
            if example.strip() != ABSENT:
                raise DataInvalid(f"{where}, item {number}: must be an example, not text.")
            continue
        output = example.output if isinstance(example.output, str) else example.output[0]
        reason = example.explanation if example.reason is None else example.reason
        found.append(Example(example.input, output, reason, example.suggestion))
    return tuple(found)


def _from_yaml(path: Path) -> NaturalTask:
    tree = _yaml(path, "task", "It must hold at least 'instances:'.")
    known = {field.name for field in msgspec.structs.fields(_YamlTask)}
    for key in tree:
        if key not in known:
            raise DataInvalid(f"{path}: unknown key {key!r:.80}.", nearest(key, known))
    try:
        raw = msgspec.convert(tree, _YamlTask)
    except msgspec.ValidationError as error:
        raise _misfit(path, error) from None
    return _task(path, raw, raw.category, raw.positive_examples, raw.negative_examples)


def _task(
    path: Path,
    raw: _JsonTask | _YamlTask,
    category: str | None,
    positive: tuple[Example, ...],
    negative: tuple[Example, ...],
) -> NaturalTask:
    texts = {name: getattr(raw, name) for name in TEXT_FIELDS.values()}
    instances: Sequence[_Instance] = raw.instances
    entries = tuple(
        Entry(
            str(index if one.id is None else one.id),
            one.input,
            (one.output,) if isinstance(one.output, str) else tuple(one.output),
        )
        for index, one in enumerate(instances)
    )
    instruction = Instruction(**texts, positive=positive, negative=negative)
    return NaturalTask(path.stem, instruction, entries, category)


def read_categories(path: Path) -> dict[str, str]:
    """Read the names and patterns of a file of categories, in order.

    Raises:
        DataInvalid: It is not a mapping of names to categories.
    """
    raw = _yaml(path, "list of categories", "Write 'TASK: CATEGORY', one per line.")
    for pattern, category in raw.items():
        if not isinstance(category, str) or not category.strip():
            raise DataInvalid(f"{path}: the category of {pattern!r:.80} must be text.")
    return raw


def category_of(name: str, *known: Mapping[str, str]) -> str | None:
    """Return the category of a task by its name, or None if no pattern matches."""
    patterns: Iterable[tuple[str, str]] = (item for one in known for item in one.items())
    return next((category for pattern, category in patterns if fnmatchcase(name, pattern)), None)


def _yaml(path: Path, what: str, hint: str) -> dict[str, Any]:
    try:
        return yaml_files.read(path, what, hint)
    except ConfigError as error:
        raise DataInvalid(error.message, error.remedy) from None


_NOT_TEXT = re.compile(r"Expected `str.*got `(bool|int|float|null)`")


def _misfit(path: Path, error: msgspec.ValidationError) -> DataInvalid:
    problem = encodable(str(error))
    remedy = "Put it in quotes." if _NOT_TEXT.match(problem) else ""
    return DataInvalid(f"{path}: {problem}.", remedy)


def _unreadable(path: Path, error: OSError) -> DataMissing:
    return DataMissing(
        f"Cannot read {path}: {error.strerror}.", "Check the path and its permissions."
    )
