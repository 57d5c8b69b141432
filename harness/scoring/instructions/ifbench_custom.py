"""IFBench's instructions that are whole tasks, such as a table in CSV or a list of dates."""

from __future__ import annotations

import csv
import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from io import StringIO
from itertools import pairwise

from harness.scoring import cut
from harness.scoring.instructions.language_data import published_list
from harness.scoring.instructions.texts import Check, bare, counted, listed, sentences, unpunctuated

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


def multiples(text: str) -> str:
    """All numbers in the text are the multiples of 7 from 14 to 49, in order."""
    found = re.findall(r"\d+", text)
    return "" if found == MULTIPLES else f"{listed(found)} found, {', '.join(MULTIPLES)} wanted"


def mcq_count_length(text: str) -> str:
    """Four questions that grow in length, with five options each, and nothing before them."""
    if not text.startswith("Question"):
        return "the text does not begin with 'Question'"
    questions = [part.strip() for part in _QUESTION.split(text) if part.strip()]
    if len(questions) != N_QUESTIONS:
        return counted(len(questions), "numbered questions", N_QUESTIONS)
    lengths = []
    for place, question in enumerate(questions, 1):
        lines = [line.strip() for line in question.split("\n")]
        marked = [bool(_OPTION.match(line)) for line in lines]
        if sum(marked) != N_OPTIONS:
            return f"question {place} has {counted(sum(marked), 'options', N_OPTIONS)}"
        lengths.append(len(" ".join(lines[: marked.index(True)]).strip()))
    grows = all(one < other for one, other in pairwise(lengths))
    return "" if grows else f"the questions have {', '.join(map(str, lengths))} characters"


def reverse_newline(text: str) -> str:
    """At least 52 lines from the one with Zimbabwe on, in reverse alphabetical order."""
    lines = [line for line in map(bare, text.split("\n")) if line]
    first = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), None)
    if first is None:
        return "no line has Zimbabwe"
    countries = [_plain(line) for line in lines[first:]]
    if len(countries) < N_COUNTRIES:
        return counted(len(countries), "lines from Zimbabwe on", f"at least {N_COUNTRIES}")
    for one, other in pairwise(countries):
        if one < other:
            return f"{cut(other, 40)!r} follows {cut(one, 40)!r}"
    return ""


def _plain(text: str) -> str:
    """Return a text in ASCII, without diacritical marks and other characters."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


def word_reverse(text: str) -> str:
    """The words in reverse order name the bald eagle, in one sentence."""
    reverse = " ".join(unpunctuated(text.lower().strip()).split()[::-1])
    if "bald eagle" not in reverse:
        return "the words in reverse order do not contain 'bald eagle'"
    return "" if reverse in sentences(reverse) else "more than one sentence"


def character_reverse(text: str) -> str:
    """The bald eagle is named backwards."""
    return "" if "elgae dlab" in text.lower() else "'elgae dlab' missing"


def sentence_alphabet(text: str) -> str:
    """26 sentences that begin with the letters of the alphabet, in order."""
    found = sentences(text)
    if len(found) != len(string.ascii_lowercase):
        return counted(len(found), "sentences", len(string.ascii_lowercase))
    for letter, sentence in zip(string.ascii_lowercase, found, strict=True):
        if sentence.lstrip().lower()[:1] != letter:
            return f"{cut(sentence, 40)!r} does not begin with {letter!r}"
    return ""


def european_capitals_sort(text: str) -> str:
    """The capitals of the published list, in its order, separated by commas."""
    found = [name.strip() for name in _plain(text).split(",") if name.strip()]
    if len(found) != len(CAPITALS):
        return counted(len(found), "names between commas", len(CAPITALS))
    for one, wanted in zip(found, CAPITALS, strict=True):
        if one != wanted:
            return f"{cut(one, 40)!r}, {wanted!r} wanted"
    return ""


def csv_city(text: str) -> str:
    """CSV with the five columns and seven rows."""
    found = _rows(text, ",")
    if isinstance(found, str):
        return found
    return _shape(found, 7) or (
        "" if found[0] == CITY_HEADER else f"the columns are {listed(found[0])}"
    )


def csv_special_character(text: str) -> str:
    """CSV with the five columns and 14 rows; a field in quotes has a special character."""
    if not _PRODUCTS.match(text.split("\n")[0].strip()):
        return "the first line is not that of the five columns"
    found = _rows(text.replace('"', '"""'), ",")
    if isinstance(found, str):
        return found
    if len(found) != 15:
        return counted(len(found) - 1, "rows", 14)
    for row in found[1:]:  # the published code does not look at the rows after such a field
        if len(row) != 5:
            return counted(len(row), "fields in a row", 5)
        if any(map(_has_special_character, row)):
            return ""
    return "no field in double quotes has a special character"


def _has_special_character(field: str) -> bool:
    line = field.split("\n")[0]
    return line[:1] == '"' and bool(_SPECIAL.search(line, 1, max(1, line.rfind('"'))))


def csv_quotes(text: str) -> str:
    """CSV with tabs, the five columns and three rows, every field in double quotes."""
    if not _STUDENTS.match(text.split("\n")[0].strip()):
        return "the first line is not that of the five columns"
    found = _rows(text.replace('"', '"""'), "\t")
    if isinstance(found, str):
        return found
    bare_fields = [
        field
        for row in found
        for field in map(str.strip, row)
        if not field or {field[0], field[-1]} != {'"'}
    ]
    return _shape(found, 3) or (f"{listed(bare_fields)} not in quotes" if bare_fields else "")


def _rows(text: str, delimiter: str) -> list[list[str]] | str:
    """Return the rows of a CSV text, or why there are none."""
    try:
        return list(csv.reader(StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        return f"not CSV: {error}"


def _shape(found: list[list[str]], n_rows: int) -> str:
    if len(found) != n_rows + 1:
        return counted(max(0, len(found) - 1), "rows", n_rows)
    for row in found:
        if len(row) != 5:
            return counted(len(row), "fields in a row", 5)
    return ""


def date_format_list(text: str) -> str:
    """Dates of Napoleon's life as YYYY-MM-DD between commas; a month or day 00 passes."""
    return _dates(text, lambda _, month, day: month <= 12 and day <= LONGEST_MONTHS.get(month, 31))


def real_date_list(text: str) -> str:
    """Corrected `date_format_list`: the dates exist."""
    return _dates(text, _exists)


def _dates(text: str, exists: Callable[[int, int, int], bool]) -> str:
    for one in text.strip().split(","):
        found = _DATE.match(one.strip())
        if not found:
            return f"{cut(one.strip(), 40)!r} is not a date YYYY-MM-DD"
        year, month, day = map(int, found.groups())
        if not (NAPOLEON[0] <= year <= NAPOLEON[1] and exists(year, month, day)):
            return f"{one.strip()} is not a date of Napoleon's life"
    return ""


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


OFFICIAL: Mapping[str, Check] = {
    "custom:multiples": multiples,
    "custom:mcq_count_length": mcq_count_length,
    "custom:reverse_newline": reverse_newline,
    "custom:word_reverse": word_reverse,
    "custom:character_reverse": character_reverse,
    "custom:sentence_alphabet": sentence_alphabet,
    "custom:european_capitals_sort": european_capitals_sort,
    "custom:csv_city": csv_city,
    "custom:csv_special_character": csv_special_character,
    "custom:csv_quotes": csv_quotes,
    "custom:date_format_list": date_format_list,
}
CORRECTED: Mapping[str, Check] = {"custom:date_format_list": real_date_list}
