"""The instruction schema of Natural Instructions as typed objects.

A task is an instruction (title, definition, prompt, things to avoid, emphasis and caution,
examples of right and wrong answers) and the instances that it is asked about (Mishra et al. 2022,
arXiv 2104.08773, section 3). Texts are kept as they are in the file: the authors' prompts depend on
every space.

>>> Instruction(prompt="Name a colour.", things_to_avoid="-").text("Things to Avoid") is None
True
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

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


class Example(Struct, frozen=True):
    """An input with a right or a wrong answer.

    reason: why it is right or wrong.
    suggestion: how a wrong one could be mended.
    """

    input: str
    output: str
    reason: str | None = None
    suggestion: str | None = None


class Entry(Struct, frozen=True):
    """An instance of a task: an input with all the outputs that are right.

    id: unique within the task; its place in the file where the file gives none.
    """

    id: str
    input: str
    outputs: tuple[str, ...]


class Instruction(Struct, frozen=True):
    """What a task says of itself; None where it says nothing."""

    title: str | None = None
    definition: str | None = None
    prompt: str | None = None
    things_to_avoid: str | None = None
    emphasis_and_caution: str | None = None
    positive: tuple[Example, ...] = ()
    negative: tuple[Example, ...] = ()

    def text(self, field: str) -> str | None:
        """A field by the authors' name; None where the task does not have it."""
        value: str | None = getattr(self, TEXT_FIELDS[field])
        return None if value == ABSENT else value


class NaturalTask(Struct, frozen=True):
    """A task of the benchmark.

    name: its file's name, without the suffix.
    category: None where the file does not tell.
    """

    name: str
    instruction: Instruction
    entries: tuple[Entry, ...]
    category: str | None = None
