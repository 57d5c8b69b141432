"""FollowBench's rules: which answers they decide on, and whether an answer passes.

Jiang et al. 2024, "FollowBench: A Multi-level Fine-grained Constraints Following Benchmark for
Large Language Models" (arXiv 2310.20410), section 3.2, as implemented in the authors' commit
6278f4c. Rules read texts literally: nothing is stripped, a sentence is the text between ``.``,
``!`` and ``?``, and words are separated by single spaces or, within sentences, by white space. All
rules take time proportional to the text's length.

>>> rule = rule_for("mixed", "mixed", "CONLL2003", 1, 1, "['Bonn', 'Rome']")
>>> rule.violation("Bonn"), rule.violation("Bonn.")
('', "not one of 'Bonn', 'Rome'")
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import partial
from string import punctuation
from typing import NamedTuple

Check = Callable[[str], str]
"""A function that returns, briefly, why a text fails, or an empty string if it passes."""

MOST_SHOWN = 80  # maximum characters of a target that a reason shows


class FollowBenchRule(NamedTuple):
    """A check of answers, and an answer that should pass it (None for rules not in `TARGETS`).

    ``source`` is the check's key or, for the category ``example``, the row's source.
    """

    violation: Check
    source: str
    answer: str | None = None


def rule_for(
    category: str, kind: str, source: str, example_id: int, level: int, target: str
) -> FollowBenchRule | None:
    """Return the rule for a row of the data set, or None if a judge decides.

    The arguments are fields of the row: ``category`` is its ``constraint_type``, and ``kind`` is
    its ``category`` or, if that is empty, also its ``constraint_type``.

    Raises:
        ValueError: If the target is not in the form that the rule needs.
    """
    if category == "example":
        return FollowBenchRule(_in_form(target), source)
    if source in TARGETS:
        answer: str | None = target
        if source == "CONLL2003":
            answer = next(iter(_names_in(target)), None)
        return FollowBenchRule(TARGETS[source](target), source, answer)
    numbered = f"{source}/{example_id}"
    if kind == "format" and numbered in CHECKS:
        source = numbered
    if source not in CHECKS:
        return None
    return FollowBenchRule(CHECKS[source][level - 1], source)


def _must(holds: Callable[[str], object], reason: str) -> Check:
    return lambda text: "" if holds(text) else reason


def _must_not(fails: Callable[[str], object], reason: str) -> Check:
    return lambda text: reason if fails(text) else ""


def _all(*checks: Check) -> Check:
    def check_all(text: str) -> str:
        reasons = [check(text) for check in checks]
        return "; ".join(filter(None, reasons))

    return check_all


# Rules with a target.


def _in_form(template: str) -> Check:
    r"""Return a check for a template's form, such as ``{instruction}\nAnswer: {answer}``."""
    plain = template.replace("{instruction}\n", "").replace("{{", "{").replace("}}", "}")
    parts = plain.replace("{answer}", ".*").split(".*")  # ".*" in it also allows any text
    if len(parts) != 2:
        raise ValueError("must contain {answer} exactly once")
    before, after = map(re.escape, parts)
    pattern = re.compile(rf"{before}[^\n]*{after}")
    return _must(pattern.fullmatch, "not in the form that the examples show")


def _exact(target: str) -> Check:
    return _must(lambda text: text == target, f"not exactly {_quote(target)}")


def _lines_of(target: str) -> Check:
    lines = set(target.split("\n"))

    def check(text: str) -> str:
        for line in text.split("\n"):
            if line not in lines:
                return f"the line {_quote(line)} is wrong"
        return ""

    return check


def _one_of(target: str) -> Check:
    names = _names_in(target)
    listed = ", ".join(map(repr, names))
    return _must(lambda text: text in names, f"not one of {listed:.{MOST_SHOWN}}")


def _names_in(target: str) -> list[str]:
    """Return the strings in a list that is written as Python code."""
    try:
        names = ast.literal_eval(target)
    except (SyntaxError, RecursionError, MemoryError, TypeError, ValueError) as error:
        raise ValueError(f"is not a list of texts ({error})") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("is not a list of texts")
    return names


def _last(pattern: str, what: str, target: str) -> Check:
    def check(text: str) -> str:
        matches = re.findall(pattern, text)
        if not matches:
            return f"has no {what}"
        if matches[-1] == target:
            return ""
        return f"the last {what} is {_quote(matches[-1])}"

    return check


def _quote(text: str) -> str:
    return f"{text!r:.{MOST_SHOWN}}"


TARGETS: Mapping[str, Callable[[str], Check]] = {
    "E2E": _exact,
    "text_editing": _exact,
    "WIKIEVENTS": _lines_of,
    "CONLL2003": _one_of,
    "self_made_space": lambda target: _must(lambda text: target in text, f"lacks {_quote(target)}"),
    "BBH_logical": partial(_last, r"\([A-Z]\)", "option in parentheses"),
    "BBH_time": partial(_last, r"\d{2}/\d{2}/\d{4}", "date"),
    "gsm_8k": partial(_last, r"\$\d+", "number of dollars"),
}
"""Maps a row's source to a function that makes a check from the row's target."""


# Rules without a target: each level adds a constraint.

# No break after "e.g." or "Dr.", as in a widespread recipe.
_BREAK = re.compile(r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<=[.?])\s")


def _sentences(text: str) -> list[str]:
    """Return the non-empty parts between sentence ends."""
    return [part for part in re.split(r"[.!?]", text) if part]


def _bold_points(text: str) -> int:
    """Count points such as ``**1. Growth:``."""
    count = 0
    for line in text.split("\n"):
        before_colon = line[: line.rfind(":") + 1]
        count += len(re.findall(r"\*\*\d.[^:]*:", before_colon))
    return count


_COUNTERS: Mapping[str, Callable[[str], int]] = {
    "sentences": lambda text: len(_sentences(text)),
    "words": lambda text: text.count(" ") + 1,
    "paragraphs": lambda text: len(text.split("\n\n")),
    "punctuation marks": lambda text: sum(character in punctuation for character in text),
    "points like '**1. Growth:'": _bold_points,
}


def _count(what: str, requirement: str, is_met: Callable[[int], bool]) -> Check:
    def check(text: str) -> str:
        n = _COUNTERS[what](text)
        return "" if is_met(n) else f"{n} {what}, {requirement} wanted"

    return check


def _exactly(expected: int, what: str) -> Check:
    return _count(what, f"exactly {expected}", lambda n: n == expected)


def _words_at_most(limit: int) -> Check:
    return _count("words", f"at most {limit}", lambda n: n <= limit)


def _words_per_sentence(
    lower: int,
    upper: float,
    sentences: Callable[[str], list[str]] = _sentences,
    requirement: str = "",
) -> Check:
    def check(text: str) -> str:
        for sentence in sentences(text):
            n = len(sentence.split())
            if not lower <= n <= upper:
                return f"a sentence has {n} words{requirement}"
        return ""

    return check


def _word(word: str) -> Check:
    return _must(re.compile(rf"\b{word}\b").search, f"lacks {word!r}")


def _no_word(word: str) -> Check:
    return _must_not(re.compile(rf"\b{word}\b").search, f"contains {word!r}")


def _in_sentence(number: int, check: Check, *, if_missing: str = "") -> Check:
    """Return a check of one sentence (from 1), with a violation for its absence."""

    def checked(text: str) -> str:
        reason = if_missing
        sentences = _sentences(text)
        if number <= len(sentences):
            reason = check(sentences[number - 1])
        return f"sentence {number} {reason}" if reason else ""

    return checked


def _short_paragraphs(text: str) -> str:
    """Check that the first three paragraphs have at most two sentences each."""
    paragraphs = text.split("\n\n")[:3]
    longest = max(len(_sentences(paragraph)) for paragraph in paragraphs)
    return "" if longest < 3 else f"a paragraph has {longest} sentences"


def _paragraphs_are_numbered(text: str) -> bool:
    for part in text.split("\n\n"):
        if part.strip() and not re.match(r"\s*\d+\.", part):
            return False
    return True


def _points_are_short(text: str) -> bool:
    for part in _BREAK.split(text):
        if re.search(r"[1-5]\.", part) and part.count(".") > 1:
            return False
    return True


def _levels(*checks: Check) -> tuple[Check, ...]:
    """Return a check for each level, which includes the checks of lower levels."""
    return tuple(_all(*checks[:level]) for level in range(1, len(checks) + 1))


_NO_SENTENCE = "is missing"
_END = "Those are suggestions"
_WOODEN_TABLE = (
    _short_paragraphs,
    _words_per_sentence(21, float("inf")),
    _must(_paragraphs_are_numbered, "a paragraph does not begin with a number"),
)
_PERFECT = _must(re.compile(r"\b(?:has|have)\s+\w").search, "has no present perfect")
_CONTINUOUS = _must(re.compile(r"\b(?:am|is|are)\s+\w+ing\b").search, "no present continuous")

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "cnn_dailymail": _levels(
        _exactly(3, "sentences"),
        _words_per_sentence(0, 14),
        _all(
            _in_sentence(1, _word("Potter"), if_missing=_NO_SENTENCE),
            _in_sentence(2, _word("actor"), if_missing=_NO_SENTENCE),
            _in_sentence(3, _word("films"), if_missing=_NO_SENTENCE),
        ),
        _in_sentence(2, _no_word("lavish")),
        _in_sentence(3, _PERFECT, if_missing=_NO_SENTENCE),
    ),
    "xsum": _levels(
        _exactly(1, "sentences"),
        _words_at_most(19),
        _no_word("Newton Stewart"),
        _CONTINUOUS,
        _word("operation"),
    ),
    "samsum": _levels(
        _exactly(1, "sentences"),
        _words_at_most(14),
        _word("stuff"),
        _must_not(re.compile("procrast", re.IGNORECASE).search, "contains 'procrast'"),
        _exactly(1, "punctuation marks"),
    ),
    "gigaword": _levels(
        _exactly(8, "words"),
        _exactly(0, "punctuation marks"),
        _must(str.islower, "not in lower case"),
        _no_word("bus"),
        _word("in"),
    ),
    "arxiv": _levels(
        _exactly(1, "sentences"),
        _words_at_most(20),
        _must(re.compile("We").match, "does not begin with 'We'"),
        _word("activations"),
        _no_word("transformer"),
    ),
    "helpful_base/22": (
        *_levels(_exactly(3, "paragraphs"), *_WOODEN_TABLE),
        # The sentence at the end counts as a paragraph.
        _all(
            _exactly(4, "paragraphs"),
            *_WOODEN_TABLE,
            _must(re.compile(rf"{_END}\Z").search, f"does not end with {_END!r}"),
        ),
    ),
    "koala/30": _levels(
        _must(re.compile(r"\*\*").search, "lacks '**'"),
        _exactly(5, "points like '**1. Growth:'"),
        _must(_points_are_short, "a point has two sentences"),
        _words_per_sentence(10, 15, _BREAK.split, ", 10 to 15 wanted"),
        _must_not(re.compile(r"-ly(?!\S)").search, "a word ends in '-ly'"),
    ),
}
"""The checks for each level, by source or by source and example, such as ``koala/30``."""
