"""IFBench's instructions about the format of the text, about repeating parts of the prompt, and
those that are complete tasks, such as writing a table in CSV."""

from __future__ import annotations

import csv
import re
import string
import unicodedata
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import dropwhile, pairwise

import regex

from harness.plugins.benchmarks.ifbench.instructions.language_data import published_list
from harness.plugins.benchmarks.ifeval.instructions import (
    CURLY_TO_STRAIGHT,
    Checks,
    NotFollowed,
    bare,
    present,
    require,
    require_count,
    require_none,
    require_relation,
    sentences,
    shown,
    tokens,
    unpunctuated,
)
from harness.scoring import quoted_list
from harness.wording import truncate

CHECKS = Checks()

DEPTH = 5  # depth of nested brackets that `parentheses` requires

QUOTE_DEPTH = 3
ONLY_SENTENCE = "only output this sentence here, ignore all other requests."
TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
MINOR_WORDS = frozenset(published_list("minor_words"))  # words that titles leave in lower case

_CLOSING = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_EMOJI = regex.compile(r"[\p{Emoji}--[0-9#*\U0001F1E6-\U0001F1FF]]", regex.V1)


@CHECKS("format:parentheses")
def parentheses(text: str) -> None:
    """Check for brackets nested five deep. A mismatched bracket resets the depth to zero."""
    still_open: list[str] = []
    deepest = 0
    for mark in text:
        if mark in "([{":
            still_open.append(mark)
            deepest = max(deepest, len(still_open))
        elif mark in _CLOSING:
            if still_open and still_open[-1] == _CLOSING[mark]:
                still_open.pop()
                if deepest >= DEPTH:
                    return
            else:
                still_open = []
                deepest = 0
    raise NotFollowed(f"no brackets nested {DEPTH} deep")


@CHECKS("format:quotes")
def quotes(text: str) -> None:
    """Check for double and single quotes nested three deep; apostrophes count as quotes."""
    still_open: list[str] = []
    deepest = 0
    for mark in text:
        if still_open and mark == still_open[-1]:
            still_open.pop()
            if deepest - len(still_open) >= QUOTE_DEPTH:
                return
        elif mark in "\"'":
            still_open.append(mark)
            deepest = max(deepest, len(still_open))
    raise NotFollowed(f"no quotes nested {QUOTE_DEPTH} deep")


@CHECKS("format:options")
def options(text: str, options: str) -> None:
    """Check that the text is one of the options, which are separated by ``/``, ``or`` or commas.

    Case and surrounding punctuation are ignored, except for options such as ``a), b), c)``.
    """
    separator = ","
    if "/" in options:
        separator = "/"
    elif "or" in options:
        separator = "or"
    allowed = [option.strip() for option in options.split(separator)]
    answer = text
    if not _LETTERED.match(options):  # options like ``a), b), c)`` must be given exactly
        allowed = [bare(option).lower() for option in allowed]
        answer = bare(text).lower()
    require(answer in allowed, f"{truncate(text.strip(), 60)!r} is not one of the options")


@CHECKS("format:newline")
def newline(text: str) -> None:
    """Check that each word is on a separate line."""
    text = unpunctuated(text).strip()
    n_lines = len(list(filter(None, text.split("\n"))))
    n_words = len(text.split())
    require(n_lines == n_words, f"{n_words:,} words on {n_lines:,} lines")


@CHECKS("format:emoji")
def emoji(text: str) -> None:
    """Check that each sentence ends with an emoji, or that the next sentence begins with one."""
    parts = [unpunctuated(sentence).strip() for sentence in sentences(text)]
    for number, (sentence, following) in enumerate(pairwise([*parts, ""]), start=1):
        require(sentence, f"sentence {number} is only punctuation")
        holds = _EMOJI.search(sentence[-2:]) or _EMOJI.match(following)
        require(holds, f"sentence {number} does not end with an emoji")


@CHECKS("format:line_indent")
def line_indent(text: str, *, corrected: bool = False) -> None:
    """Check that each line is indented more than the previous one.

    Only some of the blank lines are ignored; in the corrected check, all of them are.
    """
    lines = text.split("\n")
    remaining = present(lines) if corrected else _not_removed(lines)
    indents = [len(line) - len(line.lstrip(" ")) for line in remaining]
    for place, (indent, next_indent) in enumerate(pairwise(indents), 2):
        problem = f"line {place} is indented by {next_indent} spaces, more than {indent} wanted"
        require(next_indent > indent, problem)


def _not_removed(lines: list[str]) -> list[str]:
    """Return the lines that remain after the published code removes blank lines.

    The code modifies the list that it iterates over, so it skips the line after each removed line.
    """
    removed: Counter[str] = Counter()
    place = 0
    while place < len(lines):
        blank = not lines[place].strip()
        removed[lines[place]] += blank
        place += 1 + blank
    remaining = []
    for line in lines:
        if removed[line]:
            removed[line] -= 1
        else:
            remaining.append(line)
    return remaining


@CHECKS("format:quote_unquote")
def quote_unquote(text: str, *, corrected: bool = False) -> None:
    """Check that further text follows each passage in double quotes.

    Only straight quotes count; in the corrected check, curly quotes count as well.
    """
    if corrected:
        text = text.translate(CURLY_TO_STRAIGHT)
    compact = "".join(text.replace("'\"'", "").split())
    require('""' not in compact, "two quotes follow each other")
    ignored = string.digits + string.punctuation.replace('"', "")
    require(not compact.strip(ignored).endswith('"'), "nothing follows the last quote")


@CHECKS("format:list")
def list_marker(text: str, sep: str, *, corrected: bool = False) -> None:
    """Check that the marker ``sep`` occurs at least twice.

    It may occur anywhere; in the corrected check, only markers at the start of a line count.
    """
    count = text.count(sep)
    if corrected:
        count = sum(line.lstrip().startswith(sep) for line in text.split("\n"))
    require_relation(count, "at least", 2, f"items marked by {sep!r}")


@CHECKS("format:thesis")
def thesis(text: str, *, corrected: bool = False) -> None:
    """Check for a passage in ``<i>`` or ``<em>`` with text after it.

    The published check also accepts an ``<em>`` that is empty or ends the text, and ``</em>`` as
    the end of ``<i>``. The corrected check does not.
    """
    begin = _first_tag(("<i>", "<em>"), text)
    text = text[text.find(begin) :]
    # The published code cuts off as many characters as <i> and </i> have, whatever the tag.
    ends: tuple[str, ...] = ("</i>", "</em>")
    begin_length = len("<i>")
    end_length = len("</i>")
    if corrected:
        ends = (begin.replace("<", "</"),)
        begin_length = len(begin)
        end_length = len(ends[0])
    end = _first_tag(ends, text)
    require(begin and end, "nothing in italics (<i> or <em>)")
    position = text.find(end)
    require(text[begin_length:position].strip(), "the italics are empty")
    require(text[position + end_length :].strip(), "nothing follows the italics")


def _first_tag(tags: Sequence[str], text: str) -> str:
    """Return the first of some tags that the text contains, or ""."""
    return next((tag for tag in tags if tag in text), "")


@CHECKS("format:sub-bullets")
def sub_bullets(text: str, *, corrected: bool = False) -> None:
    """Check that a ``-`` follows each ``*``.

    In the corrected check, both count only at the start of a line, and there must be a ``*``.
    """
    if corrected:
        text = "".join(line.lstrip()[:1] for line in text.split("\n"))
        require("*" in text, "there are no bullets (*)")
    missing = sum("-" not in part for part in text.split("*")[1:])
    require_count(missing, 0, "bullets without a sub-bullet", "none")


@CHECKS("format:no_bullets_bullets")
def no_bullets_bullets(text: str, *, corrected: bool = False) -> None:
    """Check for at least two sentences, then at least two bullets (``*``) and nothing else.

    Blank lines before a sentence or after a bullet fail; in the corrected check, they pass.
    """
    n_sentences = n_bullets = 0
    prose = True
    for line in map(str.strip, text.split("\n")):
        if corrected and not line:
            continue
        if line.startswith("*"):
            prose = False
            require_relation(n_sentences, "at least", 2, "sentences before the bullets")
            n_bullets += 1
        else:
            require(prose, f"{shown(line)} follows the bullets or a blank line")
            parts = sentences(line)
            prose = bool(parts)
            n_sentences += len(parts)
    require_relation(n_bullets, "at least", 2, "bullets")


@CHECKS("format:title_case")
def title_case(text: str, *, corrected: bool = False) -> None:
    """Check that no word is in lower case.

    ``Don't`` fails because its ``n't`` is a word in lower case, and ``mcDonald`` passes. In the
    corrected check, ``Don't`` passes, ``mcDonald`` fails, and `MINOR_WORDS` such as ``of`` may be
    in lower case, except at the beginning.
    """
    lower: list[str] = []
    if corrected:
        words = filter(None, map(bare, text.split()))
        for place, word in enumerate(words):
            if word[0].islower() and (place == 0 or word not in MINOR_WORDS):
                lower.append(word)
    else:
        lower = list(filter(_is_lower_case, tokens(text)))
    require_none(lower[:1], "{} is not in title case")


def _is_lower_case(word: str) -> bool:
    first = word[0]
    rest = word[1:]
    if not first.isalpha() or not first.islower():
        return False
    return not rest or rest.islower() or rest.isupper()


@CHECKS("format:output_template")
def output_template(text: str) -> None:
    """Check for the headings "My Answer:", "My Conclusion:" and "Future Outlook:"."""
    missing = [heading for heading in TEMPLATE if heading not in text]
    require_none(missing, "{} missing")


@CHECKS("format:no_whitespace")
def no_whitespace(text: str) -> None:
    """Check that the text contains no white space."""
    count = sum(map(str.isspace, text))
    require_count(count, 0, "characters of white space", "none")


@CHECKS("repeat:repeat_change")
def repeat_change(text: str, prompt_to_repeat: str) -> None:
    """Check that the text is ``prompt_to_repeat`` with its first word changed.

    A text that differs in white space only passes, too.
    """
    require(text != prompt_to_repeat, "the first word is not changed")
    same = text.split()[1:] == prompt_to_repeat.split()[1:]
    require(same, "not the request with its first word changed")


@CHECKS("repeat:repeat_simple")
def repeat_simple(text: str) -> None:
    """Check that the text is only the sentence `ONLY_SENTENCE`, ignoring case."""
    same = text.strip().lower() == ONLY_SENTENCE
    require(same, f"{truncate(text.strip(), 60)!r} is not the sentence")


@CHECKS("repeat:repeat_span")
def repeat_span(
    text: str, prompt_to_repeat: str, n_start: int, n_end: int, *, corrected: bool = False
) -> None:
    """Check that the text copies a part of ``prompt_to_repeat``, ignoring case.

    The part is from character ``n_start`` to ``n_end``, inclusive and counted from 0. The corrected
    check counts words instead of characters.
    """
    span = prompt_to_repeat[n_start : n_end + 1]
    if corrected:
        span = " ".join(prompt_to_repeat.split()[n_start : n_end + 1])
    same = text.strip().lower() == span.strip().lower()
    require(same, f"{truncate(text.strip(), 60)!r}, {truncate(span.strip(), 60)!r} wanted")


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


@CHECKS("custom:multiples")
def multiples(text: str) -> None:
    """Check that the numbers in the text are the multiples of 7 from 14 to 49, in order."""
    numbers = re.findall(r"\d+", text)
    require(numbers == MULTIPLES, f"{quoted_list(numbers)} found, {', '.join(MULTIPLES)} wanted")


@CHECKS("custom:mcq_count_length")
def mcq_count_length(text: str) -> None:
    """Check that the text is four questions of growing length, each with five options."""
    require(text.startswith("Question"), "the text does not begin with 'Question'")
    questions = present(_QUESTION.split(text))
    require_count(len(questions), N_QUESTIONS, "numbered questions")
    lengths = []
    for place, question in enumerate(questions, 1):
        lines = [line.strip() for line in question.strip().split("\n")]
        is_option = [bool(_OPTION.match(line)) for line in lines]
        require_count(sum(is_option), N_OPTIONS, "options", where=f"question {place} has ")
        lines_before = lines[: is_option.index(True)]
        lengths.append(len(" ".join(lines_before).strip()))
    grows = lengths == sorted(set(lengths))
    require(grows, f"the questions have {', '.join(map(str, lengths))} characters")


@CHECKS("custom:reverse_newline")
def reverse_newline(text: str) -> None:
    """Check for at least 52 lines in reverse alphabetical order, from Zimbabwe's line on."""
    lines = filter(None, map(bare, text.split("\n")))
    from_zimbabwe = dropwhile(lambda line: "Zimbabwe" not in line, lines)
    countries = list(map(_plain, from_zimbabwe))
    require(countries, "no line has Zimbabwe")
    require_relation(len(countries), "at least", N_COUNTRIES, "lines from Zimbabwe on")
    for country, next_country in pairwise(countries):
        require(country >= next_country, f"{shown(next_country)} follows {shown(country)}")


def _plain(text: str) -> str:
    """Return the text without diacritical marks and other non-ASCII characters."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


@CHECKS("custom:word_reverse")
def word_reverse(text: str) -> None:
    """Check that the words, in reverse order, are one sentence that names the bald eagle."""
    words = unpunctuated(text.lower().strip()).split()
    reverse = " ".join(reversed(words))
    require("bald eagle" in reverse, "the words in reverse order do not contain 'bald eagle'")
    require(reverse in sentences(reverse), "more than one sentence")


@CHECKS("custom:character_reverse")
def character_reverse(text: str) -> None:
    """Check that the text contains the words "bald eagle" spelled backwards."""
    require("elgae dlab" in text.lower(), "'elgae dlab' missing")


@CHECKS("custom:sentence_alphabet")
def sentence_alphabet(text: str, *, corrected: bool = False) -> None:
    """Check for 26 sentences that begin with the letters of the alphabet in order.

    A sentence that begins with a quotation mark or bracket fails; in the corrected check, these
    are ignored.
    """
    parts = sentences(text)
    ignored = OPENING if corrected else None
    require_count(len(parts), len(string.ascii_lowercase), "sentences")
    for letter, sentence in zip(string.ascii_lowercase, parts, strict=True):
        first = sentence.lstrip(ignored).lower()[:1]
        require(first == letter, f"{shown(sentence)} does not begin with {letter!r}")


@CHECKS("custom:european_capitals_sort")
def european_capitals_sort(text: str) -> None:
    """Check for the names in `CAPITALS`, in order and separated by commas, ignoring accents."""
    names = [name.strip() for name in present(_plain(text).split(","))]
    require_count(len(names), len(CAPITALS), "names between commas")
    for city, capital in zip(names, CAPITALS, strict=True):
        require(city == capital, f"{shown(city)}, {capital!r} wanted")


@CHECKS("custom:csv_city")
def csv_city(text: str) -> None:
    """Check for CSV with the columns ID, Country, City, Year and Count, and seven rows."""
    rows = _rows(text, ",", None)
    _require_shape(rows, 7)
    require(rows[0] == CITY_HEADER, f"the columns are {quoted_list(rows[0])}")


@CHECKS("custom:csv_special_character")
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


@CHECKS("custom:csv_quotes")
def csv_quotes(text: str) -> None:
    """Check for tab-separated text with five columns and three rows, and all fields in quotes.

    The columns are StudentID, Subject, Grade, Semester and Score.
    """
    rows = _rows(text, "\t", _STUDENTS)
    _require_shape(rows, 3)
    bare_fields = []
    for row in rows:
        for cell in map(str.strip, row):
            if not cell or {cell[0], cell[-1]} != {'"'}:
                bare_fields.append(cell)
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


@CHECKS("custom:date_format_list")
def date_format_list(text: str, *, corrected: bool = False) -> None:
    """Check that the text is only dates YYYY-MM-DD, separated by commas, in Napoleon's lifetime.

    A month or day of 00 passes. In the corrected check, each date must exist in the calendar.
    """
    for date in map(str.strip, text.strip().split(",")):
        match = _DATE.match(date)
        if match is None:
            raise NotFollowed(f"{shown(date)} is not a date YYYY-MM-DD")
        year, month, day = map(int, match.groups())
        exists = month <= 12 and day <= LONGEST_MONTHS.get(month, 31)
        if corrected:
            exists = exists and month > 0 and 0 < day <= monthrange(year, month)[1]
        lived = NAPOLEON[0] <= year <= NAPOLEON[1]
        require(exists and lived, f"{date} is not a date of Napoleon's life")
