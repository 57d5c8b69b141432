"""The form of an answer, written down once: it describes, constrains, parses and writes answers.

A form is a chain of parts. From the same parts come the description in the prompt, the regular
expression that constrains decoding, the shots and the reference answers; the parser is the last
part of the expression. So none can drift from the others, as happened in "Let Me Speak
Freely?" (arXiv 2408.02442) and what "Say What You Mean" by .txt corrected
(https://blog.dottxt.co/say-what-you-mean.html); the patterns are that article's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from harness.errors import Unparseable
from harness.scoring.extraction import RegexExtraction, json_object
from harness.scoring.validators import Undecided, validator
from harness.scoring.validators.limits import HALF_PAIR, is_encodable

LETTERS = 4
"""Letters of an answer and words of a question: the patterns read exactly this many."""
LONGEST_REASONING = 250
"""Characters."""

STRICT = r"answer is ([A-Za-z]{4})"
FLEXIBLE = (
    STRICT,
    r"answer is ([A-Za-z]-[A-Za-z]-[A-Za-z]-[A-Za-z])",
    r'answer is:? "?([A-Za-z] ?[A-Za-z] ?[A-Za-z] ?[A-Za-z])"?',
    r'Concatenating them is "([A-Za-z]{4})"',
    r"answer is:? ([A-Za-z]'?[A-Za-z]'?[A-Za-z]'?[A-Za-z])",
)
"""What .txt's flexible parser accepts; of two matches at one place the earlier pattern counts."""

FormName = Literal["free", "json"]
ParserName = Literal["strict", "flexible", "json"]


SCHEMA = {
    "additionalProperties": False,
    "description": "The reasoning, then the answer.",
    "properties": {
        "reasoning": {"maxLength": LONGEST_REASONING, "title": "Reasoning", "type": "string"},
        "answer": {"pattern": f"^[A-Z]{{{LETTERS}}}$", "title": "Answer", "type": "string"},
    },
    "required": ["reasoning", "answer"],
    "title": "LastLetters",
    "type": "object",
}
"""The schema of a JSON answer, which parser and constraint use."""


class Reading(NamedTuple):
    """Letters in lower case, without separators, and the index of the pattern that matched."""

    letters: str
    pattern: int = 0


class TextForm:
    """An answer as a line of text.

    Each part is a pattern, its description in the prompt, and its text in a correct answer.
    """

    parts = (
        ("Answer: ", "Answer: ", "Answer: "),
        # .txt's expression, letter for letter; reasoning begins with a T, as in the shots.
        (r'T[\w \\",\\.]{30,250}', "<think step by step>", "{reasoning}"),
        (". The ", ". The ", ". The "),
        (STRICT, f"answer is <the {LETTERS} letters>", "answer is {answer}"),
    )
    pattern, described, written = ("".join(column) for column in zip(*parts, strict=True))

    def write(self, reasoning: str, answer: str) -> str:
        """Write an answer in this form."""
        return self.written.format(reasoning=reasoning.removesuffix("."), answer=answer)

    def constraint(self) -> dict[str, Any]:
        """Return the fields of the decoding constraint."""
        return {"regex": self.pattern}

    def holds(self, text: str) -> bool:
        """Return whether constrained decoding could write this text."""
        return re.fullmatch(self.pattern, text) is not None


class JsonForm:
    """An answer as a JSON object with the schema `SCHEMA`."""

    described = (
        f'{{"reasoning": <think step by step, at most {LONGEST_REASONING} characters>, '
        f'"answer": <the {LETTERS} letters, in capitals>}}'
    )

    def write(self, reasoning: str, answer: str) -> str:
        """Write an answer in this form."""
        found = {"reasoning": f"{reasoning.removesuffix('.')}.", "answer": answer.upper()}
        return json.dumps(found, ensure_ascii=False)

    def constraint(self) -> dict[str, Any]:
        """Return the fields of the decoding constraint."""
        return {"json_schema": dict(SCHEMA)}

    def holds(self, text: str) -> bool:
        """Return whether constrained decoding could write this text."""
        try:
            return bool(JsonParser().read(text)) and text.strip().startswith("{")
        except Unparseable:
            return False


Form = TextForm | JsonForm

FREE, JSON = TextForm(), JsonForm()
FORMS: Mapping[FormName, Form] = {"free": FREE, "json": JSON}
PARSERS_OF: Mapping[FormName, tuple[ParserName, ...]] = {
    "free": ("strict", "flexible"),
    "json": ("json",),
}
"""Form -> the parsers that read it; the first is the default."""


class RegexParser:
    """Reads letters with patterns; the leftmost match counts."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self._extraction = RegexExtraction(patterns, "last_letter")

    def read(self, text: str) -> Reading:
        """Read the letters."""
        found = self._extraction.find(text)
        if found is None:
            raise Unparseable("The answer could not be read.", f"End it with: {FREE.parts[-1][1]}")
        return Reading(re.sub(r"[^a-z]", "", found.answer.lower()), found.pattern)


class JsonParser:
    """Reads letters from a JSON object that is valid under `SCHEMA`."""

    patterns = (json.dumps(SCHEMA, sort_keys=True),)

    def read(self, text: str) -> Reading:
        """Read the letters."""
        found = json_object(text)
        try:
            violations = validator(SCHEMA).violations(found)
            problem = violations[0].message if violations else ""
        except Undecided as error:  # nested without end, or half a character
            problem = error.message
        if not problem and not is_encodable(found):
            problem = f"it has {HALF_PAIR}"
        if problem:
            raise Unparseable(
                f"The answer does not have the form asked for ({problem:.200}).",
                f"Write {JSON.described}",
            )
        return Reading(found["answer"].lower())


Parser = RegexParser | JsonParser


def parser(name: ParserName) -> Parser:
    """Return the parser with this name in the run file."""
    if name == "json":
        return JsonParser()
    return RegexParser((STRICT,) if name == "strict" else FLEXIBLE)
