"""The form of an answer, written down once: it describes, decodes, reads and writes answers.

A form is a chain of parts. From the same parts come the description in the prompt, the regular
expression that constrains decoding, the shots and gold answers; and the parser is the
expression's last part. So none of them can drift from the others, which is what went wrong in
"Let Me Speak Freely?" (arXiv 2408.02442) and what "Say What You Mean" by .txt put right
(https://blog.dottxt.co/say-what-you-mean.html); the patterns are that document's.

>>> FREE.pattern
'Answer: T[\\\\w \\\\\\\\",\\\\\\\\.]{30,250}. The answer is ([A-Za-z]{4})'
>>> FREE.described
'Answer: <think step by step>. The answer is <the 4 letters>'
>>> answer = FREE.write('The last letter of … Concatenating them is "nrdn"', "nrdn")
>>> parser("strict").read(answer).letters
'nrdn'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple, Protocol

from harness.errors import Unparseable
from harness.scoring.extraction import RegexExtraction, json_object

LETTERS = 4
"""Of an answer, and words of a question: the patterns read as many and no others."""
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
"""What .txt's flexible parser takes, in this order where two match at the same place."""

FormName = Literal["free", "json"]
ParserName = Literal["strict", "flexible", "json"]


class Reading(NamedTuple):
    """What a parser has read.

    letters: in lower case, without separators.
    pattern: which of the parser's patterns has read it, from 0.
    """

    letters: str
    pattern: int = 0


class Part(NamedTuple):
    """A stretch of an answer.

    regex: what it may be.
    described: what the prompt says of it.
    written: what it is in a right answer; {reasoning} and {answer} stand for these.
    """

    regex: str
    described: str
    written: str


class TextForm:
    """An answer in a line of text: the chain of its parts."""

    name: FormName = "free"

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    @property
    def pattern(self) -> str:
        """The regular expression of a whole answer."""
        return "".join(part.regex for part in self.parts)

    @property
    def described(self) -> str:
        """The form as the prompt tells it."""
        return "".join(part.described for part in self.parts)

    def write(self, reasoning: str, answer: str) -> str:
        """An answer in this form."""
        written = "".join(part.written for part in self.parts)
        return written.format(reasoning=reasoning.removesuffix("."), answer=answer)

    def constraint(self) -> dict[str, Any]:
        """What decoding is constrained by."""
        return {"regex": self.pattern}

    def holds(self, text: str) -> bool:
        """Whether decoding under the constraint could write this text."""
        return re.fullmatch(self.pattern, text) is not None


class JsonForm:
    """An answer as a JSON object, told by its schema (of `answer_model`)."""

    name: FormName = "json"
    described = (
        f'{{"reasoning": <think step by step, at most {LONGEST_REASONING} characters>, '
        f'"answer": <the {LETTERS} letters, in capitals>}}'
    )

    def write(self, reasoning: str, answer: str) -> str:
        """An answer in this form."""
        found = {"reasoning": f"{reasoning.removesuffix('.')}.", "answer": answer.upper()}
        return json.dumps(found, ensure_ascii=False)

    @cached_property
    def _schema(self) -> dict[str, Any]:
        found: dict[str, Any] = answer_model().model_json_schema()
        return found

    def constraint(self) -> dict[str, Any]:
        """What decoding is constrained by."""
        return {"json_schema": self._schema}

    def holds(self, text: str) -> bool:
        """Whether decoding under the constraint could write this text."""
        try:
            return bool(JsonParser().read(text)) and text.strip().startswith("{")
        except Unparseable:
            return False


Form = TextForm | JsonForm

FREE = TextForm(
    Part("Answer: ", "Answer: ", "Answer: "),
    # The expression is .txt's, letter for letter; the reasoning begins with a T, as in the shots.
    Part(r'T[\w \\",\\.]{30,250}', "<think step by step>", "{reasoning}"),
    Part(". The ", ". The ", ". The "),
    Part(STRICT, f"answer is <the {LETTERS} letters>", "answer is {answer}"),
)
JSON = JsonForm()
FORMS: Mapping[FormName, Form] = {"free": FREE, "json": JSON}
PARSERS_OF: Mapping[FormName, tuple[ParserName, ...]] = {
    "free": ("strict", "flexible"),
    "json": ("json",),
}
"""Form -> the parsers that read it, the first where none is named."""


class Parser(Protocol):
    """Reads the letters of an answer."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """What it reads by, for the fingerprint."""
        ...

    def read(self, text: str) -> Reading:
        """The letters. Raises: `harness.errors.Unparseable`."""
        ...


class RegexParser:
    """Letters by patterns, the one with the leftmost match."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self.extraction = RegexExtraction(patterns, "last_letter")

    def read(self, text: str) -> Reading:
        """The letters, in lower case, separators removed."""
        found = self.extraction.find(text)
        if found is None:
            raise Unparseable(
                "The answer could not be read.", f"End it with: {FREE.parts[-1].described}"
            )
        return Reading(re.sub(r"[^a-z]", "", found.answer.lower()), found.pattern)


@cache
def answer_model() -> Any:
    """The pydantic model of a JSON answer: prompt, parser and constraint of the form ``json``."""
    from pydantic import BaseModel, ConfigDict, Field

    class LastLetters(BaseModel):
        """The reasoning, then the answer."""

        model_config = ConfigDict(extra="forbid", strict=True)

        reasoning: str = Field(max_length=LONGEST_REASONING)
        answer: str = Field(pattern=rf"^[A-Z]{{{LETTERS}}}$")

    return LastLetters


class JsonParser:
    """Letters in a JSON object that the model of `answer_model` takes."""

    @cached_property
    def _model(self) -> Any:
        return answer_model()

    @property
    def patterns(self) -> tuple[str, ...]:
        """The schema, for the fingerprint."""
        return (json.dumps(self._model.model_json_schema(), sort_keys=True),)

    def read(self, text: str) -> Reading:
        """The letters, in lower case."""
        from pydantic import ValidationError

        found = json_object(text)
        try:
            return Reading(str(self._model(**found).answer).lower())
        except (ValidationError, TypeError) as error:
            said = ""
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                said = f" ({'.'.join(map(str, first['loc']))}: {first['msg']})"
            raise Unparseable(
                f"The answer does not have the form asked for{said:.200}.",
                f"Write {JSON.described}",
            ) from None


def parser(name: ParserName) -> Parser:
    """A parser by its name in the run file."""
    if name == "json":
        return JsonParser()
    return RegexParser((STRICT,) if name == "strict" else FLEXIBLE)
