"""FollowBench's rules: which answers they decide, and whether an answer follows its instruction.

Jiang et al. 2024, "FollowBench: A Multi-level Fine-grained Constraints Following Benchmark for
Large Language Models" (arXiv 2310.20410), section 3.2, as in the authors' code: their commit
6278f4c. The rules read texts literally: nothing is stripped, a sentence is what stands between
``.``, ``!`` and ``?``, and words are separated by single spaces or, within sentences, by white
space. All take time proportional to the text's length.

>>> violation(FollowBenchRule("target", "CONLL2003", 1, "['Bonn', 'Rome']"), "Bonn")
''
>>> violation(FollowBenchRule("target", "CONLL2003", 1, "['Bonn', 'Rome']"), "Bonn.")
"not one of 'Bonn', 'Rome'"
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

Check = Callable[[str], str]
"""Returns why a text fails, in a few words; empty if it passes."""

MOST_SHOWN = 80  # characters of a target that a reason shows


class FollowBenchRule(NamedTuple):
    """How a row is checked: against its target, by a list of checks, or by a template."""

    kind: Literal["target", "checks", "template"]
    source: str  # key of `TARGETS` or `CHECKS`; unused for templates
    level: int  # number of constraints, from 1
    target: str = ""


def rule_for(
    category: str, kind: str, source: str, example_id: int, level: int, target: str
) -> FollowBenchRule | None:
    """Return the rule for a row of the data set; None if a judge decides.

    `category` is that of the file (``mixed``) and `kind` that of the row (``content, format``).
    """
    if category == "example":
        return FollowBenchRule("template", source, level, target)
    if source in TARGETS:
        return FollowBenchRule("target", source, level, target)
    numbered = f"{source}/{example_id}"
    if kind == "format" and numbered in CHECKS:
        source = numbered
    return FollowBenchRule("checks", source, level) if source in CHECKS else None


def violation(rule: FollowBenchRule, text: str) -> str:
    """Return why a text breaks a rule, in a few words; empty if it keeps it."""
    if rule.kind == "template":
        return "" if matches(rule.target, text) else "not in the form that the examples show"
    if rule.kind == "target":
        return TARGETS[rule.source](rule.target)(text)
    checks = CHECKS[rule.source]
    found = (check(text) for check in checks[rule.level - 1])
    return "; ".join(reason for reason in found if reason)


def matches(template: str, text: str) -> bool:
    """Return whether a text has a template's form, such as ``{instruction}\\nAnswer: {answer}``.

    Doubled braces are single ones. The answer may be empty, but has no line break. A template has
    one ``{answer}`` (`answer_places`).
    """
    before, _, after = _form(template).partition(_ANSWER)
    inner = text[len(before) : len(text) - len(after)]
    whole = len(text) >= len(before) + len(after)
    return whole and text.startswith(before) and text.endswith(after) and "\n" not in inner


def answer_places(template: str) -> int:
    """Return how many texts of any kind a template allows."""
    return _form(template).count(_ANSWER)


_ANSWER = ".*"  # a template's own ".*" allows any text, too


def _form(template: str) -> str:
    plain = template.replace("{instruction}\n", "")
    return plain.replace("{{", "{").replace("}}", "}").replace("{answer}", _ANSWER)


# Rules with a target.


def _exact(target: str) -> Check:
    return lambda text: "" if text == target else f"not exactly {_shown(target)}"


def _lines_of(target: str) -> Check:
    wanted = set(target.split("\n"))

    def check(text: str) -> str:
        wrong = next((line for line in text.split("\n") if line not in wanted), None)
        return "" if wrong is None else f"the line {_shown(wrong)} is wrong"

    return check


def _one_of(target: str) -> Check:
    names = names_in(target)
    listed = ", ".join(map(repr, names))
    return lambda text: "" if text in names else f"not one of {listed:.{MOST_SHOWN}}"


def names_in(target: str) -> list[str]:
    """Return the texts in a written list, such as ``['Bonn', 'Rome']``; raises ValueError."""
    try:
        found = ast.literal_eval(target)
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError("not a list of texts")
    return found


def _contains(target: str) -> Check:
    return lambda text: "" if target in text else f"lacks {_shown(target)}"


def _last(pattern: str, what: str) -> Callable[[str], Check]:
    compiled = re.compile(pattern)

    def rule(target: str) -> Check:
        def check(text: str) -> str:
            found = compiled.findall(text)
            if not found:
                return f"has no {what}"
            return "" if found[-1] == target else f"the last {what} is {_shown(found[-1])}"

        return check

    return rule


def _shown(text: str) -> str:
    return f"{text!r:.{MOST_SHOWN}}"


TARGETS: Mapping[str, Callable[[str], Check]] = {
    "E2E": _exact,
    "text_editing": _exact,
    "WIKIEVENTS": _lines_of,
    "CONLL2003": _one_of,
    "self_made_space": _contains,
    "BBH_logical": _last(r"\([A-Z]\)", "option in parentheses"),
    "BBH_time": _last(r"\d{2}/\d{2}/\d{4}", "date"),
    "gsm_8k": _last(r"\$\d+", "number of dollars"),
}
"""By source: the check that a target makes."""


# Rules without a target: each level adds a constraint.

_ENDS = re.compile(r"[.!?]")
_CONTINUOUS = re.compile(r"\b(?:am|is|are)\s+\w+ing\b")
_PERFECT = re.compile(r"\b(?:has|have)\s+\w")
_NUMBERED = re.compile(r"\d+\.")
_BOLD_NUMBER = re.compile(r"\*\*\d")
# No break after "e.g." or "Dr.", as in a widespread recipe.
_BREAK = re.compile(r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<=[.?])\s")


def _sentences(text: str) -> list[str]:
    """Return the parts between sentence ends; white space alone is a sentence."""
    return [part for part in _ENDS.split(text) if part]


def _number(n: int, wanted: int, what: str) -> str:
    return "" if n == wanted else f"{n} {what}, exactly {wanted} wanted"


def _has_sentences(wanted: int) -> Check:
    return lambda text: _number(len(_sentences(text)), wanted, "sentences")


def _has_words(wanted: int) -> Check:
    return lambda text: _number(len(text.split(" ")), wanted, "words")


def _has_paragraphs(wanted: int) -> Check:
    return lambda text: _number(len(text.split("\n\n")), wanted, "paragraphs")


def _words_at_most(most: int) -> Check:
    def check(text: str) -> str:
        n = len(text.split(" "))
        return "" if n <= most else f"{n} words, at most {most} wanted"

    return check


def _words_per_sentence(least: int, most: float) -> Check:
    def check(text: str) -> str:
        sizes = [len(sentence.split()) for sentence in _sentences(text)]
        wrong = next((n for n in sizes if not least <= n <= most), None)
        return "" if wrong is None else f"a sentence has {wrong} words"

    return check


def _has_word(word: str, *, wanted: bool = True) -> Check:
    compiled = re.compile(rf"\b{re.escape(word)}\b")
    reason = f"lacks {word!r}" if wanted else f"contains {word!r}"
    return lambda text: "" if (compiled.search(text) is not None) is wanted else reason


def _in_sentence(number: int, check: Check, *, if_missing: str = "") -> Check:
    """Check one sentence, numbered from 1; without it, the reason is `if_missing`."""

    def checked(text: str) -> str:
        found = _sentences(text)[number - 1 : number]
        reason = check(found[0]) if found else if_missing
        return f"sentence {number} {reason}" if reason else ""

    return checked


def _finds(pattern: re.Pattern[str], reason: str) -> Check:
    return lambda text: "" if pattern.search(text) else reason


def _no_procrastination(text: str) -> str:
    return "contains 'procrast'" if re.search("procrast", text, re.IGNORECASE) else ""


def _punctuation(wanted: int) -> Check:
    marks = frozenset(string.punctuation)
    return lambda text: _number(sum(one in marks for one in text), wanted, "punctuation marks")


def _lower_case(text: str) -> str:
    return "" if text.islower() else "not in lower case"


def _begins(start: str) -> Check:
    return lambda text: "" if text.startswith(start) else f"does not begin with {start!r}"


def _ends_with(end: str) -> Check:
    return lambda text: "" if text.endswith(end) else f"does not end with {end!r}"


def _short_paragraphs(text: str) -> str:
    """Allow two sentences in each of the first three paragraphs."""
    sizes = [len(_sentences(part)) for part in text.split("\n\n")[:3]]
    return "" if max(sizes) < 3 else f"a paragraph has {max(sizes)} sentences"


def _numbered_paragraphs(text: str) -> str:
    parts = filter(None, (part.lstrip() for part in text.split("\n\n")))
    return "" if all(map(_NUMBERED.match, parts)) else "a paragraph does not begin with a number"


def _bold(text: str) -> str:
    return "" if "**" in text else "lacks '**'"


def _bold_points(text: str) -> str:
    """Count points such as ``**1. Growth:``, within their lines."""
    n = 0
    for line in text.split("\n"):
        end = 0
        while (found := _BOLD_NUMBER.search(line, end)) is not None:
            end = line.find(":", found.end() + 1) + 1
            if not end:
                break
            n += 1
    return _number(n, 5, "points like '**1. Growth:'")


def _short_points(text: str) -> str:
    points = (
        sentence
        for sentence in _BREAK.split(text)
        if any(f"{number}." in sentence for number in range(1, 6))
    )
    return "" if all(point.count(".") < 2 for point in points) else "a point has two sentences"


def _ten_to_fifteen_words(text: str) -> str:
    sizes = [len(sentence.split()) for sentence in _BREAK.split(text)]
    wrong = next((n for n in sizes if not 10 <= n <= 15), None)
    return "" if wrong is None else f"a sentence has {wrong} words, 10 to 15 wanted"


def _no_suffix(text: str) -> str:
    return "a word ends in '-ly'" if any(word.endswith("-ly") for word in text.split()) else ""


def _levels(*checks: Check) -> tuple[Sequence[Check], ...]:
    """Return the checks of each level: one more than those of the level before."""
    return tuple(checks[:level] for level in range(1, len(checks) + 1))


_NO_SENTENCE = "is missing"
_WOODEN_TABLE = (
    _short_paragraphs,
    _words_per_sentence(21, float("inf")),
    _numbered_paragraphs,
)

CHECKS: Mapping[str, tuple[Sequence[Check], ...]] = {
    "cnn_dailymail": _levels(
        _has_sentences(3),
        _words_per_sentence(0, 14),
        lambda text: "; ".join(
            reason
            for number, word in enumerate(("Potter", "actor", "films"), start=1)
            if (reason := _in_sentence(number, _has_word(word), if_missing=_NO_SENTENCE)(text))
        ),
        _in_sentence(2, _has_word("lavish", wanted=False)),
        _in_sentence(3, _finds(_PERFECT, "has no present perfect"), if_missing=_NO_SENTENCE),
    ),
    "xsum": _levels(
        _has_sentences(1),
        _words_at_most(19),
        _has_word("Newton Stewart", wanted=False),
        _finds(_CONTINUOUS, "no present continuous"),
        _has_word("operation"),
    ),
    "samsum": _levels(
        _has_sentences(1),
        _words_at_most(14),
        _has_word("stuff"),
        _no_procrastination,
        _punctuation(1),
    ),
    "gigaword": _levels(
        _has_words(8),
        _punctuation(0),
        _lower_case,
        _has_word("bus", wanted=False),
        _has_word("in"),
    ),
    "arxiv": _levels(
        _has_sentences(1),
        _words_at_most(20),
        _begins("We"),
        _has_word("activations"),
        _has_word("transformer", wanted=False),
    ),
    "helpful_base/22": (
        *_levels(_has_paragraphs(3), *_WOODEN_TABLE),
        # The sentence at the end counts as a paragraph.
        (_has_paragraphs(4), *_WOODEN_TABLE, _ends_with("Those are suggestions")),
    ),
    "koala/30": _levels(_bold, _bold_points, _short_points, _ten_to_fifteen_words, _no_suffix),
}
"""By source, or source and example: the checks of each level."""
