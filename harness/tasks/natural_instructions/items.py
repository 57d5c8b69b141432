"""Builds a task's prompts: which instances are evaluated, and which examples are shown.

All prompts of a task show the same examples, so that they differ in the input alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from harness.errors import ConfigError
from harness.scoring.overlap import bare
from harness.tasks.natural_instructions.encodings import EXAMPLE_FIELDS, chat, paper
from harness.tasks.natural_instructions.loading import (
    CLASSIFICATION,
    Entry,
    Example,
    Instruction,
    NaturalTask,
)
from harness.tasks.natural_instructions.tokens import Counter, estimate

Examples = int | Literal["own", "fit"] | Mapping[str, int]
"""How many examples: a number, a number for each task, the task's own, or as many as fit."""

GPT3_PROMPT = 2048 - 16
"""Tokens that the authors' model leaves for a prompt."""

KEPT = 60
SPREAD = 100

FORMS = {"paper": paper, "chat": chat}


class InstructionItem(Struct, frozen=True):
    """An instance with its prompt, its input without the instruction, and its references.

    Attributes:
        n_examples: How many right examples are shown.
        labels: All bare answers of the task, if it is a classification.
    """

    id: str
    prompt: str
    input: str
    outputs: tuple[str, ...]
    category: str
    n_examples: int
    labels: frozenset[str] = frozenset()


def evaluated(n_entries: int, wanted: int | None) -> list[int]:
    """Return the positions of the evaluated instances, in order.

    The authors keep a task's first 60 instances for examples and spread 100 evenly over the rest
    (their ``encodeinstruction.py``); the paper's GPT-3 figures use the first 50 of these. A task
    with too few instances for that rule keeps only those that are not evaluated. ``wanted`` limits
    the number; None means all that are not kept. Up to 100, a larger limit adds instances.

    >>> evaluated(430, 3), evaluated(8, 50)
    ([60, 63, 66], [0, 1, 2, 3, 4, 5, 6, 7])
    """
    wanted = n_entries if wanted is None else wanted
    if n_entries < KEPT + SPREAD:
        kept = min(KEPT, max(0, n_entries - wanted))
        return list(range(kept, n_entries))[:wanted]
    step = max(1, (n_entries - KEPT) // max(SPREAD, wanted))
    return list(range(KEPT, n_entries, step))[:wanted]


def shown(
    task: NaturalTask, chosen: Collection[int]
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return all examples that may be shown: the task's own, and instances with their first output.

    The evaluated instances (``chosen``) are not among them, nor is an example that has the input of
    one of them and a right output for it.
    """
    answers: dict[str, set[str]] = {}
    for index in chosen:
        entry = task.entries[index]
        answers.setdefault(entry.input.strip(), set()).update(map(bare, entry.outputs))

    def harmless(example: Example) -> bool:
        return bare(example.output) not in answers.get(example.input.strip(), ())

    others = (
        Example(entry.input, entry.outputs[0])
        for index, entry in enumerate(task.entries)
        if index not in chosen
    )
    return tuple(filter(harmless, task.instruction.positive)), tuple(filter(harmless, others))


@dataclass(frozen=True, slots=True)
class Showing:
    """What the prompts of each task show, and how: the options of `NaturalInstructionsTask`."""

    fields: Sequence[str]
    form: Literal["paper", "chat"]
    examples: Examples = "own"
    instances: int | None = 50
    token_budget: int = GPT3_PROMPT
    count: Counter = field(default=estimate)

    def items(self, task: NaturalTask, category: str) -> Iterator[InstructionItem]:
        """Yield the evaluated instances of a task, in order."""
        chosen = dict.fromkeys(evaluated(len(task.entries), self.instances))
        entries = [task.entries[index] for index in chosen]
        positives = self._positives(task, chosen, entries)
        labels = _labels(task) if category == CLASSIFICATION else frozenset()
        for entry in entries:
            yield InstructionItem(
                id=f"{task.name}/{entry.id}",
                prompt=self._prompt(task.instruction, entry, positives),
                input=entry.input,
                outputs=entry.outputs,
                category=category,
                n_examples=len(positives),
                labels=labels,
            )

    def _prompt(self, instruction: Instruction, entry: Entry, positives: Sequence[Example]) -> str:
        return FORMS[self.form](instruction, self.fields, entry.input, positives)

    def _positives(
        self, task: NaturalTask, chosen: Collection[int], entries: Sequence[Entry]
    ) -> Sequence[Example]:
        if not any(name in EXAMPLE_FIELDS for name in self.fields):
            return ()
        own, others = shown(task, chosen)
        available = (*own, *others)
        if self.examples == "own":
            return own
        if self.examples == "fit":
            longest = max(entries, key=lambda entry: self.count(entry.input))

            def tokens(number: int) -> int:
                return self.count(self._prompt(task.instruction, longest, available[:number]))

            numbers = range(len(available) + 1)
            return available[: max(0, bisect_right(numbers, self.token_budget, key=tokens) - 1)]
        number = self.examples if isinstance(self.examples, int) else self.examples[task.name]
        if number > len(available):
            raise ConfigError(
                f"task.examples asks for {number}, but the task {task.name!r} has "
                f"{len(available)} to show: its own, and instances that are not evaluated.",
                "Lower task.examples or task.instances, or set task.examples to own.",
            )
        return available[:number]


def _labels(task: NaturalTask) -> frozenset[str]:
    answers = [output for entry in task.entries for output in entry.outputs]
    return frozenset(map(bare, [*answers, *(e.output for e in task.instruction.positive)]))
