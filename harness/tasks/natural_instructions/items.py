"""From a task to what is asked: the evaluated instances, and the examples shown before them.

All instances of a task are shown the same examples, so that they differ in nothing but their input.

>>> task = NaturalTask("t", Instruction(prompt="Colour?"), (Entry("0", "grass", ("green",)),))
>>> items = Showing(fields=("Prompt",), form="paper").items(task, "answer generation")
>>> [item.prompt for item in items]
['Prompt: Colour?\\ninput: grass\\noutput:']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from harness.errors import ConfigError
from harness.scoring.overlap.match import bare
from harness.tasks.natural_instructions.categories import CLASSIFICATION
from harness.tasks.natural_instructions.encodings import EXAMPLE_FIELDS, chat, paper
from harness.tasks.natural_instructions.schema import Entry, Example, Instruction, NaturalTask
from harness.tasks.natural_instructions.selection import evaluated, most_that_fit, shown
from harness.tasks.natural_instructions.tokens import Counter, estimate

Examples = int | Literal["own", "fit"] | Mapping[str, int]
"""How many examples: a number, one for each task, all of a task's own, as many as fit."""

GPT3_PROMPT = 2048 - 16
"""Tokens that the authors' model left for a prompt."""

FORMS = {"paper": paper, "chat": chat}


class Item(Struct, frozen=True):
    """An instance as it is asked.

    n_examples: how many right ones are shown.
    input: what is asked about, without the instruction.
    labels: the bare answers there are, where the task is a classification.
    """

    id: str
    prompt: str
    input: str
    outputs: tuple[str, ...]
    category: str
    n_examples: int
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Showing:
    """What is shown of each task, and how.

    instances: how many of each task; None for all.
    token_budget: of the longest prompt of a task, where examples ``fit``.
    """

    fields: Sequence[str]
    form: Literal["paper", "chat"]
    examples: Examples = "own"
    instances: int | None = 50
    token_budget: int = GPT3_PROMPT
    count: Counter = field(default=estimate)

    def items(self, task: NaturalTask, category: str) -> Iterator[Item]:
        """The evaluated instances of a task, in order."""
        chosen = evaluated(len(task.entries), self.instances)
        entries = [task.entries[index] for index in chosen]
        positives = self._positives(task, chosen, entries)
        labels = _labels(task) if category == CLASSIFICATION else frozenset()
        for entry in entries:
            yield Item(
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
        self, task: NaturalTask, chosen: Sequence[int], entries: Sequence[Entry]
    ) -> Sequence[Example]:
        if not any(name in EXAMPLE_FIELDS for name in self.fields):
            return ()
        own, others = shown(task, chosen)
        available = (*own, *others)
        match self.examples:
            case "own":
                return own
            case "fit":
                longest = max(entries, key=lambda entry: self.count(entry.input))
                return available[
                    : most_that_fit(
                        len(available),
                        lambda n: self.count(
                            self._prompt(task.instruction, longest, available[:n])
                        ),
                        self.token_budget,
                    )
                ]
            case int(number):
                return _first(available, number, task)
            case numbers:
                return _first(available, numbers[task.name], task)


def _first(available: Sequence[Example], number: int, task: NaturalTask) -> Sequence[Example]:
    if number > len(available):
        raise ConfigError(
            f"task.examples asks for {number}, and the task {task.name!r} has {len(available)} to "
            "show: its own, and instances that are not evaluated.",
            "Lower task.examples, or task.instances; or write own, for those there are.",
        )
    return available[:number]


def _labels(task: NaturalTask) -> frozenset[str]:
    answers = [output for entry in task.entries for output in entry.outputs]
    return frozenset(map(bare, [*answers, *(e.output for e in task.instruction.positive)]))
