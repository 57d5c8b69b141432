"""Which parts of an instruction a prompt has, and how they are worded: the paper's ablations.

An *encoding* is an ordered list of fields. The ``paper`` form is the text that the authors sent to
GPT-3 (their ``encodeinstruction.py``), byte for byte; the ``chat`` form says the same to a chat
model, and asks for the output alone. The claims are those of the abstracts of Mishra et al. 2022
(ACL), and of its first version of 2021 (arXiv 2104.08773v1).

>>> list(named_fields("_Prompt_Positive Examples Full Only"))
['Prompt', 'Positive Examples']
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from harness.errors import ConfigError, nearest
from harness.ports import Claim
from harness.tasks.natural_instructions.loading import TEXT_FIELDS, Example, Instruction

POSITIVE = "Positive Examples Full Only"
POSITIVE_EXPLAINED = "Positive Examples Full Explanations"
NEGATIVE_EXPLAINED = "Negative Examples Full Explanations"

EXAMPLE_FIELDS = (POSITIVE, POSITIVE_EXPLAINED, NEGATIVE_EXPLAINED)
FIELDS = (*TEXT_FIELDS, *EXAMPLE_FIELDS)
"""The field names in the authors' recorded prompts."""

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
"""What the authors' files have instead of a missing suggestion."""


def fields_of(encoding: str | Sequence[str]) -> tuple[str, ...]:
    """The fields of an encoding: a name, a list, or in the authors' form ``_Definition_Prompt``."""
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
    """Return an encoding's name in tables, as in the authors' files."""
    return "".join(f"_{field}" for field in fields) or "instance_only"


def paper(
    instruction: Instruction, fields: Sequence[str], text: str, positives: Sequence[Example] = ()
) -> str:
    """Write the prompt in the authors' words, with these fields, in order, and right examples.

    As many wrong examples are shown at most. No recorded prompt begins with explained examples or
    the input. For these the authors' code writes an empty first line, which is omitted here.
    """
    lines: list[str] = []
    for field in fields:
        if field in TEXT_FIELDS:
            value = instruction.text(field)
            lines += [f"{field}: {value.strip()}"] if value is not None else []
            continue
        title = "Negative" if field == NEGATIVE_EXPLAINED else "Positive"
        for number, example in _examples(field, instruction, positives):
            reason, suggestion = example.reason, ""
            if field == NEGATIVE_EXPLAINED and example.suggestion not in (None, NO_SUGGESTION):
                suggestion = f"suggestion: {example.suggestion}"
            lines += [f"{title} Example{number}- "] if field != POSITIVE else []
            lines += [f"input: {example.input}", f"output: {example.output}"]
            if field != POSITIVE and (reason is not None or suggestion):
                lines.append(f"reason: {reason or ''}{suggestion}")
    return "\n".join([*lines, f"input: {text}", "output:"])


def chat(
    instruction: Instruction, fields: Sequence[str], text: str, positives: Sequence[Example] = ()
) -> str:
    """Write the prompt as one user turn; arguments as for `paper`.

    Examples are part of that turn: recordings and completion providers have no others, and an
    explained example in an assistant turn would invite explanations.
    """
    parts: list[str] = []
    for field in fields:
        if field in TEXT_FIELDS:
            value = (instruction.text(field) or "").strip()
            parts += [f"{field}: {value}"] if value else []
            continue
        title = "Wrong example" if field == NEGATIVE_EXPLAINED else "Example"
        for number, example in _examples(field, instruction, positives):
            said = {"Input": example.input.strip(), "Output": example.output.strip()}
            lines = [f"{title} {number}", *(f"{name}: {value}" for name, value in said.items())]
            explained = {"Reason": example.reason, "Suggestion": example.suggestion}
            for name, given in explained.items() if field != POSITIVE else ():
                lines += [f"{name}: {given.strip()}"] if given and given.strip() else []
            parts.append("\n".join(lines))
    parts.append("Give the output for this input. Answer with the output alone.")
    parts.append(f"Input: {text.strip()}")
    return "\n\n".join(parts)


def _examples(
    field: str, instruction: Instruction, positives: Sequence[Example]
) -> Iterable[tuple[int, Example]]:
    """Return a field's examples, numbered; at most as many wrong as right ones."""
    wrong = field == NEGATIVE_EXPLAINED
    return enumerate(instruction.negative[: len(positives)] if wrong else positives, start=1)


_SAMPLE = Example("input", "output", "reason", "suggestion")
_ALL = Instruction("title", "definition", "prompt", "avoid", "emphasis", (_SAMPLE,), (_SAMPLE,))
WORDING = hashlib.sha256(chat(_ALL, FIELDS, "text", (_SAMPLE,)).encode()).hexdigest()
"""Hash of the chat form's own wording, on which a run's prompts depend."""

ACL = "Mishra et al. 2022, abstract (ACL)"
V1 = "Mishra et al. 2021, abstract (arXiv 2104.08773v1)"

_BENEFIT = "models benefit from instructions"
CLAIMS = (
    Claim(_BENEFIT, ACL, "more", label(["Definition", "Prompt"]), label(["Prompt"])),
    Claim(_BENEFIT, ACL, "more", label(["Prompt", POSITIVE]), label([POSITIVE])),
    Claim(
        "the extent of their gains varies across different fields of instructions",
        V1,
        "rows_differ",
    ),
    Claim("and also depends on the task being solved", V1, "groups_differ"),
)

SHORT = {
    POSITIVE: "Positive Examples",
    POSITIVE_EXPLAINED: "Positive Examples",
    NEGATIVE_EXPLAINED: "Negative Examples",
}
"""Right examples are one field, explained or not: the authors explain them whenever they add wrong
examples."""


def named_fields(encoding: str) -> Mapping[str, str]:
    """Map the short names of an encoding's fields to the authors' full ones."""
    fields = () if encoding == "instance_only" else fields_of(encoding)
    return {SHORT.get(field, field): field for field in fields}
