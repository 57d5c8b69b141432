"""IFBench's instructions that are whole tasks, such as a table in CSV or a list of dates."""

from __future__ import annotations

import csv
import re
import string
import unicodedata
from calendar import monthrange
from io import StringIO
from itertools import dropwhile, pairwise

from harness.scoring import cut, listed
from harness.scoring.instructions.language_data import published_list
from harness.scoring.instructions.texts import (
    bare,
    exactly,
    ifbench,
    missed,
    sentences,
    unpunctuated,
)

CAPITALS = published_list("capitals")
"""European capitals north of 45 degrees, from north to south, as the published code has them."""

MULTIPLES = [str(n) for n in range(14, 51, 7)]
N_COUNTRIES = 52
NAPOLEON = (1769, 1821)
N_QUESTIONS, N_OPTIONS = 4, 5
CITY_HEADER = ["ID", "Country", "City", "Year", "Count"]
LONGEST_MONTHS = {0: 99, 2: 29, 4: 30, 6: 30, 9: 30, 11: 30}

_QUESTION = re.compile(r"Question \d+[.|):;]?\s*")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z")
_SPECIAL = re.compile(r"[^\w\s]")


def _header(names: str, gap: str) -> re.Pattern[str]:
    """Return a pattern of a line of names, each perhaps in quotes, with ``gap`` between them."""
    return re.compile(gap.join(f'({name}|"{name}")' for name in names.split()) + "$")


_PRODUCTS = _header("ProductID Category Brand Price Stock", r",[ \t]*")
_STUDENTS = _header("StudentID Subject Grade Semester Score", r"\t *")


@ifbench("custom:multiples")
def multiples(text: str) -> str:
    """All numbers in the text are the multiples of 7 from 14 to 49, in order."""
    found = re.findall(r"\d+", text)
    return "" if found == MULTIPLES else f"{listed(found)} found, {', '.join(MULTIPLES)} wanted"


@ifbench("custom:mcq_count_length")
def mcq_count_length(text: str) -> str:
    """Four questions that grow in length, with five options each, and nothing before them."""
    if not text.startswith("Question"):
        return "the text does not begin with 'Question'"
    questions = [part.strip() for part in _QUESTION.split(text) if part.strip()]
    if wrong := exactly(len(questions), N_QUESTIONS, "numbered questions"):
        return wrong
    lengths = []
    for place, question in enumerate(questions, 1):
        lines = [line.strip() for line in question.split("\n")]
        marked = [bool(_OPTION.match(line)) for line in lines]
        if wrong := exactly(sum(marked), N_OPTIONS, "options"):
            return f"question {place} has {wrong}"
        lengths.append(len(" ".join(lines[: marked.index(True)]).strip()))
    grows = all(one < other for one, other in pairwise(lengths))
    return "" if grows else f"the questions have {', '.join(map(str, lengths))} characters"


@ifbench("custom:reverse_newline")
def reverse_newline(text: str) -> str:
    """At least 52 lines from the one with Zimbabwe on, in reverse alphabetical order."""
    lines = [line for line in map(bare, text.split("\n")) if line]
    countries = [_plain(line) for line in dropwhile(lambda line: "Zimbabwe" not in line, lines)]
    if not countries:
        return "no line has Zimbabwe"
    if wrong := missed(len(countries), "at least", N_COUNTRIES, "lines from Zimbabwe on"):
        return wrong
    for one, other in pairwise(countries):
        if one < other:
            return f"{cut(other, 40)!r} follows {cut(one, 40)!r}"
    return ""


def _plain(text: str) -> str:
    """Return a text in ASCII, without diacritical marks and other characters."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


@ifbench("custom:word_reverse")
def word_reverse(text: str) -> str:
    """The words in reverse order name the bald eagle, in one sentence."""
    reverse = " ".join(unpunctuated(text.lower().strip()).split()[::-1])
    if "bald eagle" not in reverse:
        return "the words in reverse order do not contain 'bald eagle'"
    return "" if reverse in sentences(reverse) else "more than one sentence"


@ifbench("custom:character_reverse")
def character_reverse(text: str) -> str:
    """The bald eagle is named backwards."""
    return "" if "elgae dlab" in text.lower() else "'elgae dlab' missing"


@ifbench("custom:sentence_alphabet")
def sentence_alphabet(text: str) -> str:
    """26 sentences that begin with the letters of the alphabet, in order."""
    found = sentences(text)
    if wrong := exactly(len(found), len(string.ascii_lowercase), "sentences"):
        return wrong
    for letter, sentence in zip(string.ascii_lowercase, found, strict=True):
        if sentence.lstrip().lower()[:1] != letter:
            return f"{cut(sentence, 40)!r} does not begin with {letter!r}"
    return ""


@ifbench("custom:european_capitals_sort")
def european_capitals_sort(text: str) -> str:
    """The capitals of the published list, in its order, separated by commas."""
    found = [name.strip() for name in _plain(text).split(",") if name.strip()]
    if wrong := exactly(len(found), len(CAPITALS), "names between commas"):
        return wrong
    for one, wanted in zip(found, CAPITALS, strict=True):
        if one != wanted:
            return f"{cut(one, 40)!r}, {wanted!r} wanted"
    return ""


@ifbench("custom:csv_city")
def csv_city(text: str) -> str:
    """CSV with the five columns and seven rows."""
    rows, wrong = _rows(text, ",")
    if wrong := wrong or _misshapen(rows, 7):
        return wrong
    return "" if rows[0] == CITY_HEADER else f"the columns are {listed(rows[0])}"


@ifbench("custom:csv_special_character")
def csv_special_character(text: str) -> str:
    """CSV with the five columns and 14 rows; a field in quotes has a special character."""
    rows, wrong = _rows(text, ",", _PRODUCTS)
    if wrong := wrong or exactly(len(rows) - 1, 14, "rows"):
        return wrong
    for row in rows[1:]:  # the published code does not look at the rows after such a field
        if wrong := exactly(len(row), 5, "fields in a row"):
            return wrong
        if any(map(_has_special_character, row)):
            return ""
    return "no field in double quotes has a special character"


def _has_special_character(field: str) -> bool:
    line = field.split("\n")[0]
    return line[:1] == '"' and bool(_SPECIAL.search(line, 1, max(1, line.rfind('"'))))


@ifbench("custom:csv_quotes")
def csv_quotes(text: str) -> str:
    """CSV with tabs, the five columns and three rows, every field in double quotes."""
    rows, wrong = _rows(text, "\t", _STUDENTS)
    if wrong := wrong or _misshapen(rows, 3):
        return wrong
    fields = [field.strip() for row in rows for field in row]
    bare_fields = [one for one in fields if not one or {one[0], one[-1]} != {'"'}]
    return f"{listed(bare_fields)} not in quotes" if bare_fields else ""


def _rows(
    text: str, delimiter: str, header: re.Pattern[str] | None = None
) -> tuple[list[list[str]], str]:
    """Return the rows of a CSV text, and what is wrong with it; with a header, quotes are kept."""
    if header is not None:
        if not header.match(text.split("\n")[0].strip()):
            return [], "the first line is not that of the five columns"
        text = text.replace('"', '"""')
    try:
        return list(csv.reader(StringIO(text), delimiter=delimiter)), ""
    except csv.Error as error:
        return [], f"not CSV: {error}"


def _misshapen(rows: list[list[str]], n_rows: int) -> str:
    if wrong := exactly(max(0, len(rows) - 1), n_rows, "rows"):
        return wrong
    return next(filter(None, (exactly(len(row), 5, "fields in a row") for row in rows)), "")


@ifbench("custom:date_format_list")
def date_format_list(text: str, *, corrected: bool = False) -> str:
    """Dates of Napoleon's life as YYYY-MM-DD between commas; a month or day 00 passes."""
    for one in text.strip().split(","):
        found = _DATE.match(one.strip())
        if not found:
            return f"{cut(one.strip(), 40)!r} is not a date YYYY-MM-DD"
        year, month, day = map(int, found.groups())
        exists = month <= 12 and day <= LONGEST_MONTHS.get(month, 31)
        if corrected:
            exists = exists and month > 0 and 0 < day <= monthrange(year, month)[1]
        if not (NAPOLEON[0] <= year <= NAPOLEON[1] and exists):
            return f"{one.strip()} is not a date of Napoleon's life"
    return ""
