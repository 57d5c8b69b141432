"""Builds a task's prompts from its instances, its examples and fields of its instruction.

An *encoding* is an ordered list of fields of the instruction. The ``paper`` form is the text that
the authors sent to GPT-3 (their ``encodeinstruction.py``), byte for byte. The ``chat`` form has the
same content, and asks for the output alone. All prompts of a task show the same examples.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from math import ceil
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from harness.errors import ConfigError, suggest_name
from harness.plugins.benchmarks.natural_instructions import loading
from harness.plugins.benchmarks.natural_instructions.loading import (
    Example,
    Instruction,
    NaturalTask,
)
from harness.plugins.benchmarks.natural_instructions.overlap import bare
from harness.prompts import Template, read_builtin

POSITIVE = "Positive Examples Full Only"
POSITIVE_EXPLAINED = "Positive Examples Full Explanations"
NEGATIVE_EXPLAINED = "Negative Examples Full Explanations"
# Positive and negative examples in turn, as for the paper's tuned models (appendix C).
ALTERNATING = "Alternating Examples Full Explanations"

EXAMPLE_FIELDS = (POSITIVE, POSITIVE_EXPLAINED, NEGATIVE_EXPLAINED, ALTERNATING)
FIELDS = (*loading.TEXT_FIELDS, *EXAMPLE_FIELDS)  # all of an instruction's, by the authors' names

ENCODINGS: Mapping[str, tuple[str, ...]] = {  # names and fields, as in the paper's tables
    "instance_only": (),
    "prompt": ("Prompt",),
    "prompt_definition": ("Definition", "Prompt"),
    "positive_examples": (POSITIVE,),
    "full": (
        "Definition",
        "Prompt",
        "Things to Avoid",
        "Emphasis & Caution",
        NEGATIVE_EXPLAINED,
        POSITIVE_EXPLAINED,
    ),
}

Form = Literal["paper", "chat"]

_INPUT = "\ufdd0"  # stands for the input in a rendered template

NO_SUGGESTION = " "  # a missing suggestion in the authors' files


def fields_of(encoding: str | Sequence[str]) -> tuple[str, ...]:
    """Return the fields of an encoding.

    ``encoding`` is the name of a known encoding, a list of fields, or a string in the authors'
    notation, such as ``_Definition_Prompt``.
    """
    if isinstance(encoding, str):
        if encoding in ENCODINGS:
            return ENCODINGS[encoding]
        if not encoding.startswith("_"):
            remedy = suggest_name(encoding, [*ENCODINGS, *FIELDS])
            raise ConfigError(f"There is no encoding {encoding!r}.", remedy)
        encoding = encoding[1:].split("_")
    for field in encoding:
        if field not in FIELDS:
            problem = f"An instruction has no field {field!r} to encode."
            raise ConfigError(problem, suggest_name(field, FIELDS))
    if len(set(encoding)) < len(encoding):
        raise ConfigError("The encoding names a field twice.", "Name each field once.")
    return tuple(encoding)


def label(fields: Sequence[str]) -> str:
    """Return the name of an encoding with these fields, such as ``_Definition_Prompt``."""
    return "".join(f"_{field}" for field in fields) or "instance_only"


def frame(
    form: Form, instruction: Instruction, fields: Sequence[str], positives: Sequence[Example] = ()
) -> tuple[str, str]:
    """Return what stands before and after the input in prompts that show some positive examples.

    The form ``paper`` is the authors' prompt, byte for byte, except that the empty first line that
    their code writes in some cases is omitted, because no recorded prompt has it. The form ``chat``
    asks a chat model for the output alone.
    """
    parts: list[Mapping[str, Any]] = []
    for field in fields:
        if field in loading.TEXT_FIELDS:
            parts.append({"name": field, "text": instruction.text(field)})
        else:
            examples = list(_examples(field, instruction, positives))
            parts.append({"examples": examples, "explained": field != POSITIVE})
    text = _template(form).render({"parts": parts, "input": _INPUT})
    before, _, after = text.rpartition(_INPUT)
    return before, after


def prompt(
    form: Form,
    instruction: Instruction,
    fields: Sequence[str],
    text: str,
    positives: Sequence[Example] = (),
) -> str:
    """Return the prompt for the input ``text`` (see `frame`)."""
    return filled(form, frame(form, instruction, fields, positives), text)


def filled(form: Form, around: tuple[str, str], text: str) -> str:
    """Return the prompt for an input, given what stands around it (see `frame`)."""
    before, after = around
    if form == "chat":
        text = text.strip()
    return f"{before}{text}{after}"


@cache
def _template(form: Form) -> Template:
    return read_builtin(f"natural_instructions/{form}")


def _examples(
    field: str, instruction: Instruction, positives: Sequence[Example]
) -> Iterator[Mapping[str, Any]]:
    """Yield a field's examples, with their numbers from 1."""
    negatives = instruction.negative[: len(positives)]  # at most as many as positive ones
    right = [] if field == NEGATIVE_EXPLAINED else positives
    wrong = negatives if field in (NEGATIVE_EXPLAINED, ALTERNATING) else ()
    for number, pair in enumerate(zip_longest(right, wrong), start=1):
        for is_wrong, example in enumerate(pair):
            if example is not None:
                correction = is_wrong and example.suggestion not in (None, NO_SUGGESTION)
                added = {"number": number, "wrong": is_wrong, "correction": correction}
                yield asdict(example) | added


@cache
def wording() -> str:
    """Return a hash of the chat form's wording, on which a run's prompts depend."""
    sample = Example("input", "output", "reason", "suggestion")
    texts = "title", "definition", "prompt", "avoid", "emphasis"
    worded = [field for field in FIELDS if field != ALTERNATING]  # it adds no wording
    text = prompt("chat", Instruction(*texts, (sample,), (sample,)), worded, "text", (sample,))
    return hashlib.sha256(text.encode()).hexdigest()


# By field: a short name; positive examples with and without explanations share one.
SHORT = dict.fromkeys((POSITIVE, POSITIVE_EXPLAINED), "Positive Examples")
SHORT[NEGATIVE_EXPLAINED] = "Negative Examples"
SHORT[ALTERNATING] = "Alternating Examples"


def named_fields(encoding: str) -> Mapping[str, str]:
    """Map the short names of an encoding's fields to the authors' full names."""
    fields = () if encoding == "instance_only" else fields_of(encoding)
    return {SHORT.get(field, field): field for field in fields}


# How many examples to show, for all tasks or by task.
Examples = int | Literal["own", "fit"] | Mapping[str, int]

GPT3_PROMPT = 2048 - 16  # maximum tokens of a prompt for the authors' model; 16 are for the answer

# Bytes per token, a low estimate: the longest prompts that the authors fitted into GPT-3's 2,048
# tokens have 3.7 to 4.4.
ASCII_PER_TOKEN = 3.5
OTHER_BYTES_PER_TOKEN = 1.5  # other characters have two to four bytes, often in a single token

KEPT = 60  # see `evaluated`
SPREAD = 100


class InstructionItem(Struct, frozen=True):
    """A prompt with input and references. Only a classification has ``labels``."""

    id: str
    prompt: str
    input: str
    outputs: tuple[str, ...]
    n_examples: int
    labels: frozenset[str] = frozenset()


def evaluated(n_entries: int, limit: int | None) -> list[int]:
    """Return the indices of the instances to evaluate in a task with ``n_entries`` instances.

    At most ``limit`` indices are returned (None: no limit). The authors reserve a task's first 60
    instances for examples and spread 100 evenly over the rest (their ``encodeinstruction.py``), of
    which the paper's GPT-3 figures use the first 50. In a task with too few instances, those that
    are not evaluated serve as examples.

    >>> evaluated(430, 3), evaluated(8, 50)
    ([60, 63, 66], [0, 1, 2, 3, 4, 5, 6, 7])
    """
    if limit is None:
        limit = n_entries
    if n_entries < KEPT + SPREAD:
        reserved = min(KEPT, max(0, n_entries - limit))
        return list(range(reserved, n_entries))[:limit]
    step = max(1, (n_entries - KEPT) // max(SPREAD, limit))
    return list(range(KEPT, n_entries, step))[:limit]


def example_pools(
    task: NaturalTask, chosen: Collection[int]
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return (own, others): the task's positive examples, and instances that can serve as examples.

    Instances to evaluate (``chosen``, by index) are excluded, and so are examples equal to one.
    """
    answers = defaultdict[str, set[str]](set)
    for index in chosen:
        entry = task.entries[index]
        answers[entry.input.strip()].update(map(bare, entry.outputs))
    unused = [entry for index, entry in enumerate(task.entries) if index not in chosen]
    others = [Example(entry.input, entry.outputs[0]) for entry in unused]

    def harmless(example: Example) -> bool:
        return bare(example.output) not in answers.get(example.input.strip(), ())

    return tuple(filter(harmless, task.instruction.positive)), tuple(filter(harmless, others))


def estimate(text: str) -> int:
    """Return an estimate, usually too high, of the number of tokens in text."""
    size = len(text.encode("utf-8", "surrogatepass"))
    n_ascii = size
    if not text.isascii():
        n_ascii = sum(character < "\x80" for character in text)
    return ceil(n_ascii / ASCII_PER_TOKEN + (size - n_ascii) / OTHER_BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Showing:
    """The options of `NaturalInstructionsTask` that determine the content of prompts."""

    fields: Sequence[str]
    form: Form
    examples: Examples = "own"
    instances: int | None = 50
    token_budget: int = GPT3_PROMPT

    def items(self, task: NaturalTask, category: str) -> Iterator[InstructionItem]:
        """Yield the instances of a task, with labels if it is a classification."""
        chosen = dict.fromkeys(evaluated(len(task.entries), self.instances))
        positives = self._positives(task, chosen)
        labels = frozenset[str]()
        if category == loading.CLASSIFICATION:
            answers = [example.output for example in task.instruction.positive]
            for entry in task.entries:
                answers += entry.outputs
            labels = frozenset(map(bare, answers))
        around = frame(self.form, task.instruction, self.fields, positives)
        for index in chosen:
            entry = task.entries[index]
            prompt = filled(self.form, around, entry.input)
            name = f"{task.name}/{entry.id}"
            yield InstructionItem(name, prompt, entry.input, entry.outputs, len(positives), labels)

    def _positives(self, task: NaturalTask, chosen: Collection[int]) -> Sequence[Example]:
        if not set(EXAMPLE_FIELDS).intersection(self.fields):
            return ()
        task_examples, others = example_pools(task, chosen)
        if self.examples == "own":
            return task_examples
        available = (*task_examples, *others)
        if self.examples == "fit":
            inputs = [task.entries[index].input for index in chosen]
            longest = max(inputs, key=estimate)

            def tokens(number: int) -> int:
                shown = available[:number]
                return estimate(prompt(self.form, task.instruction, self.fields, longest, shown))

            numbers = range(len(available) + 1)
            n_fitting = bisect_right(numbers, self.token_budget, key=tokens)
            return available[: max(0, n_fitting - 1)]
        number = self.examples if isinstance(self.examples, int) else self.examples[task.name]
        if number > len(available):
            problem = f"but the task {task.name!r} has {len(available)} to show."
            remedy = "Lower task.examples or task.instances, or set task.examples to own."
            raise ConfigError(f"task.examples asks for {number}, {problem}", remedy)
        return available[:number]
