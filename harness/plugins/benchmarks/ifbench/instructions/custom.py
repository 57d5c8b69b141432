"""IFBench's instructions that are complete tasks, such as writing a table in CSV."""

from __future__ import annotations

import csv
import re
import string
import unicodedata
from calendar import monthrange
from io import StringIO
from itertools import dropwhile, pairwise

from harness.plugins.benchmarks.ifbench.instructions.language_data import published_list
from harness.plugins.benchmarks.ifeval.instructions.texts import (
    Check,
    NotFollowed,
    bare,
    decides,
    require,
    require_count,
    require_none,
    require_relation,
    sentences,
    unpunctuated,
)
from harness.scoring import quoted_list
from harness.wording import truncated

CHECKS: dict[str, Check] = {}  # by the ids of instructions

CAPITALS = published_list("capitals")
"""European capitals north of 45 degrees, from north to south, as in the published code."""

MULTIPLES = [str(n) for n in range(14, 51, 7)]
N_COUNTRIES = 52
NAPOLEON = (1769, 1821)
N_QUESTIONS = 4
N_OPTIONS = 5
CITY_HEADER = ["ID", "Country", "City", "Year", "Count"]
OPENING = (
    f"{string.whitespace}\"'`([{{*_\u00ab\u2039\u201c\u201e\u2018\u201a"  # marks before a sentence
)
LONGEST_MONTHS = {0: 99, 2: 29, 4: 30, 6: 30, 9: 30, 11: 30}

_QUESTION = re.compile(r"Question \d+[.|):;]?\s*")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z")
_SPECIAL = re.compile(r"[^\w\s]")


def _header(names: str, gap: str) -> re.Pattern[str]:
    return re.compile(gap.join(f'({name}|"{name}")' for name in names.split()) + "$")


_PRODUCTS = _header("ProductID Category Brand Price Stock", r",[ \t]*")
_STUDENTS = _header("StudentID Subject Grade Semester Score", r"\t *")


@decides(CHECKS, "custom:multiples")
def multiples(text: str) -> None:
    """Check that the numbers in the text are the multiples of 7 from 14 to 49, in order."""
    numbers = re.findall(r"\d+", text)
    require(numbers == MULTIPLES, f"{quoted_list(numbers)} found, {', '.join(MULTIPLES)} wanted")


@decides(CHECKS, "custom:mcq_count_length")
def mcq_count_length(text: str) -> None:
    """Check that the text is four questions of growing length, each with five options."""
    require(text.startswith("Question"), "the text does not begin with 'Question'")
    questions = [part.strip() for part in _QUESTION.split(text) if part.strip()]
    require_count(len(questions), N_QUESTIONS, "numbered questions")
    lengths = []
    for place, question in enumerate(questions, 1):
        lines = [line.strip() for line in question.split("\n")]
        marked = [bool(_OPTION.match(line)) for line in lines]
        require_count(sum(marked), N_OPTIONS, "options", where=f"question {place} has ")
        lengths.append(len(" ".join(lines[: marked.index(True)]).strip()))
    grows = all(length < next_length for length, next_length in pairwise(lengths))
    require(grows, f"the questions have {', '.join(map(str, lengths))} characters")


@decides(CHECKS, "custom:reverse_newline")
def reverse_newline(text: str) -> None:
    """Check for at least 52 lines in reverse alphabetical order, from Zimbabwe's line on."""
    lines = [line for line in map(bare, text.split("\n")) if line]
    countries = [_plain(line) for line in dropwhile(lambda line: "Zimbabwe" not in line, lines)]
    require(countries, "no line has Zimbabwe")
    require_relation(len(countries), "at least", N_COUNTRIES, "lines from Zimbabwe on")
    for country, next_country in pairwise(countries):
        require(
            country >= next_country,
            f"{truncated(next_country, 40)!r} follows {truncated(country, 40)!r}",
        )


def _plain(text: str) -> str:
    """Return the text without diacritical marks and other non-ASCII characters."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


@decides(CHECKS, "custom:word_reverse")
def word_reverse(text: str) -> None:
    """Check that the words, in reverse order, are one sentence that names the bald eagle."""
    reverse = " ".join(unpunctuated(text.lower().strip()).split()[::-1])
    names_the_eagle = "bald eagle" in reverse
    require(names_the_eagle, "the words in reverse order do not contain 'bald eagle'")
    require(reverse in sentences(reverse), "more than one sentence")


@decides(CHECKS, "custom:character_reverse")
def character_reverse(text: str) -> None:
    """Check that the text contains the words "bald eagle" spelled backwards."""
    require("elgae dlab" in text.lower(), "'elgae dlab' missing")


@decides(CHECKS, "custom:sentence_alphabet")
def sentence_alphabet(text: str, *, corrected: bool = False) -> None:
    """Check for 26 sentences that begin with the letters of the alphabet in order.

    A sentence that begins with a quotation mark or bracket fails; in the corrected check, these
    are ignored.
    """
    parts = sentences(text)
    require_count(len(parts), len(string.ascii_lowercase), "sentences")
    for letter, sentence in zip(string.ascii_lowercase, parts, strict=True):
        first = sentence.lstrip(OPENING if corrected else None)
        begins = first.lower()[:1] == letter
        require(begins, f"{truncated(sentence, 40)!r} does not begin with {letter!r}")


@decides(CHECKS, "custom:european_capitals_sort")
def european_capitals_sort(text: str) -> None:
    """Check for the names in `CAPITALS`, in order and separated by commas, ignoring accents."""
    names = [name.strip() for name in _plain(text).split(",") if name.strip()]
    require_count(len(names), len(CAPITALS), "names between commas")
    for city, capital in zip(names, CAPITALS, strict=True):
        require(city == capital, f"{truncated(city, 40)!r}, {capital!r} wanted")


@decides(CHECKS, "custom:csv_city")
def csv_city(text: str) -> None:
    """Check for CSV with the columns ID, Country, City, Year and Count, and seven rows."""
    rows = _rows(text, ",", None)
    _require_shape(rows, 7)
    require(rows[0] == CITY_HEADER, f"the columns are {quoted_list(rows[0])}")


@decides(CHECKS, "custom:csv_special_character")
def csv_special_character(text: str) -> None:
    """Check for CSV with the columns ProductID, Category, Brand, Price and Stock, and 14 rows.

    At least one field must be in double quotes and contain a special character.
    """
    rows = _rows(text, ",", _PRODUCTS)
    require_count(len(rows) - 1, 14, "rows")
    for row in rows[1:]:  # the published code does not look at the rows after such a field
        require_count(len(row), 5, "fields in a row")
        if any(map(_has_special_character, row)):
            return
    raise NotFollowed("no field in double quotes has a special character")


def _has_special_character(field: str) -> bool:
    line = field.split("\n")[0]
    return line[:1] == '"' and bool(_SPECIAL.search(line, 1, max(1, line.rfind('"'))))


@decides(CHECKS, "custom:csv_quotes")
def csv_quotes(text: str) -> None:
    """Check for tab-separated text with five columns and three rows, and all fields in quotes.

    The columns are StudentID, Subject, Grade, Semester and Score.
    """
    rows = _rows(text, "\t", _STUDENTS)
    _require_shape(rows, 3)
    fields = [cell.strip() for row in rows for cell in row]
    bare_fields = [cell for cell in fields if not cell or {cell[0], cell[-1]} != {'"'}]
    require_none(bare_fields, "{} not in quotes")


def _rows(text: str, delimiter: str, header: re.Pattern[str] | None) -> list[list[str]]:
    """Return the rows of CSV, whose fields keep their quotes if there is a ``header``."""
    if header is not None:
        begins = header.match(text.split("\n")[0].strip())
        require(begins, "the first line is not the header of the five columns")
        text = text.replace('"', '"""')
    try:
        return list(csv.reader(StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise NotFollowed(f"not CSV: {error}") from None


def _require_shape(rows: list[list[str]], n_rows: int) -> None:
    require_count(max(0, len(rows) - 1), n_rows, "rows")
    for row in rows:
        require_count(len(row), 5, "fields in a row")


@decides(CHECKS, "custom:date_format_list")
def date_format_list(text: str, *, corrected: bool = False) -> None:
    """Check that the text is only dates YYYY-MM-DD, separated by commas, in Napoleon's lifetime.

    A month or day of 00 passes. In the corrected check, each date must exist in the calendar.
    """
    for date in text.strip().split(","):
        if not (match := _DATE.match(date.strip())):
            raise NotFollowed(f"{truncated(date.strip(), 40)!r} is not a date YYYY-MM-DD")
        year, month, day = map(int, match.groups())
        exists = month <= 12 and day <= LONGEST_MONTHS.get(month, 31)
        if corrected:
            exists = exists and month > 0 and 0 < day <= monthrange(year, month)[1]
        lived = NAPOLEON[0] <= year <= NAPOLEON[1]
        require(exists and lived, f"{date.strip()} is not a date of Napoleon's life")
