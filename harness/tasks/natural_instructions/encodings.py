"""Which parts of an instruction a prompt holds, and in which words: the ablations of the paper.

An *encoding* is a list of fields, in the order in which they come. The ``paper`` form is the text
that the authors sent to GPT-3 (their ``encodeinstruction.py``), byte for byte; the ``chat`` form
says the same to a model that converses, and asks for the output alone.

>>> paper(Instruction(prompt="Name a colour."), ("Prompt",), "grass")
'Prompt: Name a colour.\ninput: grass\noutput:'
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from harness.errors import ConfigError, nearest
from harness.tasks.natural_instructions.schema import TEXT_FIELDS, Example, Instruction

POSITIVE = "Positive Examples Full Only"
POSITIVE_EXPLAINED = "Positive Examples Full Explanations"
NEGATIVE_EXPLAINED = "Negative Examples Full Explanations"

EXAMPLE_FIELDS = (POSITIVE, POSITIVE_EXPLAINED, NEGATIVE_EXPLAINED)
FIELDS = (*TEXT_FIELDS, *EXAMPLE_FIELDS)
"""The names that the authors' recorded prompts go by."""

ENCODINGS: Mapping[str, tuple[str, ...]] = {
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
"""The encodings of the paper's tables."""

NO_SUGGESTION = " "
"""What the authors' files hold where there is no suggestion."""


def fields_of(encoding: str | Sequence[str]) -> tuple[str, ...]:
    """The fields of an encoding: by its name, in a list, or as the authors' ``_Definition_Prompt``.

    Raises: ConfigError naming the nearest.
    """
    if isinstance(encoding, str):
        if encoding in ENCODINGS:
            return ENCODINGS[encoding]
        if not encoding.startswith("_"):
            raise ConfigError(
                f"There is no encoding {encoding!r}.", nearest(encoding, [*ENCODINGS, *FIELDS])
            )
        encoding = encoding[1:].split("_")
    for field in encoding:
        if field not in FIELDS:
            raise ConfigError(
                f"An instruction has no field {field!r} to encode.", nearest(field, FIELDS)
            )
    if len(set(encoding)) < len(encoding):
        raise ConfigError("The encoding names a field twice.", "Name each field once.")
    return tuple(encoding)


def label(fields: Sequence[str]) -> str:
    """An encoding's name in tables: the one that the authors' files have."""
    return "".join(f"_{field}" for field in fields) or "instance_only"


def paper(
    instruction: Instruction, fields: Sequence[str], text: str, positives: Sequence[Example] = ()
) -> str:
    """The prompt in the authors' words.

    text: the input that is asked about.
    positives: the examples to show; as many of the wrong ones are shown with them, or all.

    Nothing recorded begins with examples that are explained, or with the input: there the authors'
    code has an empty first line, which is left out here.
    """
    lines: list[str] = []
    for field in fields:
        if field in TEXT_FIELDS:
            value = instruction.text(field)
            if value is not None:
                lines.append(f"{field}: {value.strip()}")
        else:
            lines += _paper_examples(field, instruction, positives)
    return "\n".join([*lines, f"input: {text}", "output:"])


def _paper_examples(
    field: str, instruction: Instruction, positives: Sequence[Example]
) -> Iterator[str]:
    if field == NEGATIVE_EXPLAINED:
        for number, example in enumerate(instruction.negative[: len(positives)], start=1):
            suggestion = ""
            if example.suggestion not in (None, NO_SUGGESTION):
                suggestion = f"suggestion: {example.suggestion}"
            yield f"Negative Example{number}- "
            yield f"input: {example.input}"
            yield f"output: {example.output}"
            if example.reason is not None or suggestion:
                yield f"reason: {example.reason or ''}{suggestion}"
        return
    for number, example in enumerate(positives, start=1):
        if field == POSITIVE_EXPLAINED:
            yield f"Positive Example{number}- "
        yield f"input: {example.input}"
        yield f"output: {example.output}"
        if field == POSITIVE_EXPLAINED and example.reason is not None:
            yield f"reason: {example.reason}"


def chat(
    instruction: Instruction, fields: Sequence[str], text: str, positives: Sequence[Example] = ()
) -> str:
    """The prompt as a user's turn; arguments as for `paper`.

    One turn holds the examples too: recordings and providers of completions know no others, and an
    explained example as a turn of the model's would ask for explanations.
    """
    parts: list[str] = []
    for field in fields:
        if field in TEXT_FIELDS:
            value = (instruction.text(field) or "").strip()
            parts += [f"{field}: {value}"] if value else []
        elif field == NEGATIVE_EXPLAINED:
            wrong = instruction.negative[: len(positives)]
            parts += [_chat_example(f"Wrong example {n}", e) for n, e in enumerate(wrong, start=1)]
        else:
            explained = field == POSITIVE_EXPLAINED
            parts += [
                _chat_example(f"Example {number}", example, explained)
                for number, example in enumerate(positives, start=1)
            ]
    parts.append("Give the output for this input. Answer with the output alone.")
    parts.append(f"Input: {text.strip()}")
    return "\n\n".join(parts)


def _chat_example(title: str, example: Example, explained: bool = True) -> str:
    lines = [title, f"Input: {example.input.strip()}", f"Output: {example.output.strip()}"]
    if explained:
        reason, suggestion = (example.reason or "").strip(), (example.suggestion or "").strip()
        lines += [f"Reason: {reason}"] if reason else []
        lines += [f"Suggestion: {suggestion}"] if suggestion else []
    return "\n".join(lines)


_SAMPLE = Example("input", "output", "reason", "suggestion")
_ALL = Instruction("title", "definition", "prompt", "avoid", "emphasis", (_SAMPLE,), (_SAMPLE,))
WORDING = hashlib.sha256(chat(_ALL, FIELDS, "text", (_SAMPLE,)).encode()).hexdigest()
"""Hash of what the chat form says in words of its own: a run's prompts depend on it."""
