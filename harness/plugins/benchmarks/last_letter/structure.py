"""Defines the form of an answer, and makes questions and prompts that ask for this form.

The prompt, the decoding constraint, the shots, the reference answers and the parser are all derived
from the form. They therefore cannot diverge, as they did in the paper. The patterns are from .txt's
correction (https://blog.dottxt.co/say-what-you-mean.html). The paper's recorded prompt is
reproduced byte for byte. The form and the example in that prompt match neither the parser nor the
questions.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from harness.datasets.rows import Row, convert_row, read_unique, row_id
from harness.errors import DataInvalid, Unparseable
from harness.plugins.short_answers.json_objects import json_object
from harness.prompts import read_builtin
from harness.records import DecodingConstraint
from harness.scoring.extraction import RegexExtraction
from harness.scoring.validators import Undecided, validator
from harness.scoring.validators.limits import HALF_PAIR, is_encodable

LETTERS = 4  # letters in an answer and words in a question; the patterns read exactly this many

STRICT = r"answer is ([A-Za-z]{4})"
FLEXIBLE = (  # .txt's flexible parser; of two matches at one place, the earlier pattern counts
    STRICT,
    r"answer is ([A-Za-z]-[A-Za-z]-[A-Za-z]-[A-Za-z])",
    r'answer is:? "?([A-Za-z] ?[A-Za-z] ?[A-Za-z] ?[A-Za-z])"?',
    r'Concatenating them is "([A-Za-z]{4})"',
    r"answer is:? ([A-Za-z]'?[A-Za-z]'?[A-Za-z]'?[A-Za-z])",
)
JSON_FLEXIBLE = (  # a JSON member with the answer: .txt's, then one for more keys and separators
    r'"answer":[ ]?"([A-Za-z]{4})"',
    r'"(?:final_)?answer"\s*:\s*"?([A-Za-z](?:[ -]?[A-Za-z]){3})\b',
)

FormName = Literal["free", "json"]
ParserName = Literal["strict", "flexible", "json"]

# The JSON Schema of an answer, used by the parser and by constrained decoding.
SCHEMA = json.loads(Path(__file__).with_name("schema.json").read_text("utf-8"))
LONGEST_REASONING: int = SCHEMA["properties"]["reasoning"]["maxLength"]


class Reading(NamedTuple):
    """The letters that a parser read, and the index of the pattern that it used."""

    letters: str
    pattern: int = 0


class AnswerForm(NamedTuple):
    """The form of an answer: its description in the prompt, its constraint and its parsers."""

    described: str
    constraint: DecodingConstraint
    parsers: tuple[ParserName, ...]

    def write(self, reasoning: str, answer: str) -> str:
        """Return an answer in this form, with the given reasoning and letters."""
        reasoning = reasoning.removesuffix(".")
        if self.constraint.regex:
            return _WRITTEN.format(reasoning=reasoning, answer=answer)
        fields = {"reasoning": f"{reasoning}.", "answer": answer.upper()}
        return json.dumps(fields, ensure_ascii=False)

    def holds(self, text: str) -> bool:
        """Return whether constrained decoding could produce this text."""
        if self.constraint.regex:
            return re.fullmatch(self.constraint.regex, text) is not None
        return text.strip().startswith("{") and letters_in(JSON_PARSER, text) is not None


# Each part of the text: a pattern, its description in the prompt, and its text in an answer.
_PARTS = (
    ("Answer: ", "Answer: ", "Answer: "),
    # .txt's expression, letter for letter; reasoning begins with T, as in the shots.
    (r'T[\w \\",\\.]{30,250}', "<think step by step>", "{reasoning}"),
    (". The ", ". The ", ". The "),
    (STRICT, f"answer is <the {LETTERS} letters>", "answer is {answer}"),
)
_PATTERN, _DESCRIBED, _WRITTEN = ("".join(column) for column in zip(*_PARTS, strict=True))

FREE = AnswerForm(_DESCRIBED, DecodingConstraint(regex=_PATTERN), ("strict", "flexible"))
JSON = AnswerForm(
    f'{{"reasoning": <think step by step, at most {LONGEST_REASONING} characters>, '
    f'"answer": <the {LETTERS} letters, in capitals>}}',
    DecodingConstraint(json_schema=SCHEMA),
    ("json", "strict", "flexible"),  # for JSON, ``strict`` means ``json``
)
FORMS: Mapping[FormName, AnswerForm] = {"free": FREE, "json": JSON}
READERS: tuple[ParserName, ...] = ("strict", "flexible")  # read every answer, whichever decides


class Parser(NamedTuple):
    """A function that reads the letters in an answer, and its patterns.

    The function raises Unparseable if it finds no letters.
    """

    patterns: tuple[str, ...]
    read: Callable[[str], Reading]


def _by_patterns(patterns: tuple[str, ...], remedy: str) -> Parser:
    extraction = RegexExtraction(patterns, "last_letter")

    def read(text: str) -> Reading:
        if (match := extraction.find(text)) is None:  # the leftmost match of any pattern
            raise Unparseable("The answer could not be read.", remedy)
        return Reading(re.sub(r"[^a-z]", "", match.answer.lower()), match.pattern)

    return Parser(patterns, read)


def _read_json(text: str) -> Reading:
    document = json_object(text)
    problem = ""
    try:
        violations = validator(SCHEMA).violations(document)
    except Undecided as error:  # nested without end, or a lone surrogate
        problem = error.message
    else:
        if violations:
            problem = violations[0].message
        elif not is_encodable(document):
            problem = f"it has {HALF_PAIR}"
    if problem:
        message = f"The answer does not have the form asked for ({problem:.200})."
        raise Unparseable(message, f"Write {JSON.described}")
    return Reading(document["answer"].lower())


JSON_PARSER = Parser((json.dumps(SCHEMA, sort_keys=True),), _read_json)


def parser(name: ParserName, form: FormName = "free") -> Parser:
    """Return the parser called ``name``, for answers in the given form."""
    if form == "json" and name == "strict":
        name = "json"
    if name == "json":
        return JSON_PARSER
    if form == "json":
        return _by_patterns(JSON_FLEXIBLE, f"Write {JSON.described}")
    patterns = (STRICT,) if name == "strict" else FLEXIBLE
    return _by_patterns(patterns, f"End it with: {_PARTS[-1][1]}")


def letters_in(parser: Parser, text: str) -> str | None:
    """Return the letters that a parser reads in an answer, or None if it reads none."""
    try:
        return parser.read(text).letters
    except Unparseable:
        return None


NAMES = Path(__file__).with_name("names.txt")
FIRST_NAMES = tuple(NAMES.read_text("utf-8").split())  # ours; questions are drawn from these
IGNORED = (  # keys of a recorded answer that are not used here
    "response",
    "correct",
    "predict",
    "parsed_result",
    "strict_regex",
    "flexible_regex",
    "input_prompt",
)


class LetterQuestion(Struct, frozen=True):
    """A question, the words in it, and the data set's answer in lower case."""

    id: str
    text: str
    words: tuple[str, ...]
    label: str


_Word = Annotated[str, Meta(pattern=r"^\s*\S+\s*$")]


class _Row(Struct):
    id: Any = None
    idx: Any = None
    names: Annotated[tuple[_Word, ...], Meta(min_length=1)] | None = None
    question: str | None = None
    answer: Annotated[str, Meta(min_length=1)] | None = None


def last_letters(words: tuple[str, ...]) -> str:
    """Return the last letters of words in lower case: ``nr`` for Ian and Peter."""
    return "".join(word[-1] for word in words).lower()


def asked(words: tuple[str, ...]) -> str:
    """Return the question about these words, in the paper's wording."""
    return f'Take the last letters of each words in "{" ".join(words)}" and concatenate them.'


def reasoning(words: tuple[str, ...]) -> str:
    """Return the reasoning that leads to the answer, in the paper's wording."""
    steps = [f'The last letter of "{word}" is "{word[-1].lower()}".' for word in words]
    return f'{" ".join(steps)} Concatenating them is "{last_letters(words)}".'


def of_words(name: str, *words: str) -> LetterQuestion:
    """Return the question about these words, with the id ``name``."""
    return LetterQuestion(name, asked(words), words, last_letters(words))


def fresh(n: int, seed: int) -> Iterator[LetterQuestion]:
    """Yield n distinct random questions. A larger n only adds questions."""
    drawn = {shot.words for shot in SHOTS}
    for number in range(n):
        chance = random.Random(f"last_letter/{seed}/{number}")
        while (words := tuple(chance.sample(FIRST_NAMES, LETTERS))) in drawn:
            pass
        drawn.add(words)
        yield of_words(f"seed{seed}/{number}", *words)


def _question(raw: Row, where: str) -> LetterQuestion:
    row = convert_row(raw, _Row, where, IGNORED)
    words = row.names
    if not words and (quoted := re.search(r'"([^"]+)"', row.question or "")):
        words = tuple(quoted[1].split())
    if not words:
        raise DataInvalid(f"{where}: needs 'names', or a 'question' with words in double quotes.")
    words = tuple(map(str.strip, words))
    name = row_id(raw, raw.get("idx", int(where.rpartition(" ")[2])), f"{where}: ")
    label = (row.answer or last_letters(words)).lower()
    return LetterQuestion(name, row.question or asked(words), words, label)


read_questions = partial(read_unique, build=_question)  # yields the questions of a file


# The prompt's beginning, from "Let Me Speak Freely?", as recorded in dottxt-ai/demos.
TASK = read_builtin("last_letter/task").text
MOST_NAMED = 8  # maximum number of ids named in a message
EXAMPLES = "\n\n\nHere are some examples:\n"

PAPER_FORM = "Answer: <think step by step>. The final answer is <answer>"

_SHOTS = Path(__file__).with_name("shots.txt").read_text("utf-8").splitlines()
SHOTS = tuple(of_words(f"shot/{n}", *words.split()) for n, words in enumerate(_SHOTS))


class PromptExample(NamedTuple):
    """A worked example: a question and its answer."""

    question: LetterQuestion
    answer: str


PAPER_EXAMPLE = PromptExample(
    LetterQuestion(
        "paper",  # worded differently from `asked`
        'Take the last letters of the words in "Elon Musk" and concatenate them.',
        ("Elon", "Musk"),
        "nk",
    ),
    'Answer: The last letter of "Elon" is "n". The last letter of "Musk" is "k". '
    'Concatenating them is "nk".. The answer is nk.',
)


def written(question: LetterQuestion, form: AnswerForm) -> PromptExample:
    """Return a question as a worked example in the given form."""
    return PromptExample(question, form.write(reasoning(question.words), question.label))


def errors(
    described: str,
    examples: Sequence[PromptExample],
    questions: Sequence[LetterQuestion],
    form: AnswerForm,
    parser: Parser,
) -> list[str]:
    """Return a sentence for each mismatch between prompt, parser and questions.

    The parser must be able to read the answers in the examples, and constrained decoding to produce
    them. Examples must have as many words as most questions. Questions must have four words.
    """
    problems = []
    if form is FREE:
        steps = reasoning(SHOTS[0].words).removesuffix(".")
        filled = re.sub(r"<[^<>]*>", lambda _: steps, described, count=1)
        filled = re.sub(r"<[^<>]*>", SHOTS[0].label, filled)
        if letters_in(parser, filled) != SHOTS[0].label:
            problems.append(f"The parser cannot read the prompt's form {described!r} filled in.")
        if not form.holds(filled):
            constrained_form = f"the one that constrained decoding writes, {form.described!r}."
            problems.append(f"The prompt's form {described!r} is not {constrained_form}")
    counts = Counter(len(question.words) for question in questions)
    usual = LETTERS
    if counts:
        usual = counts.most_common(1)[0][0]
    for shot, answer in examples:
        name = f"The prompt's example ({' '.join(shot.words)})"
        if len(shot.words) != usual:
            problems.append(f"{name} has {len(shot.words)} words; the questions have {usual}.")
        if letters_in(parser, answer) != shot.label:
            problems.append(f"{name} answers {shot.label!r}, which the parser does not read.")
        if not form.holds(answer):
            problems.append(f"{name} is not what constrained decoding can write.")
    others = [question.id for question in questions if len(question.words) != LETTERS]
    if others:
        listed = ", ".join(others[:MOST_NAMED])
        if len(others) > MOST_NAMED:
            listed += "…"
        problem = f"questions do not have {LETTERS} words, and the parser reads {LETTERS} letters"
        problems.append(f"{len(others)} of {len(questions)} {problem}: {listed}.")
    return problems
