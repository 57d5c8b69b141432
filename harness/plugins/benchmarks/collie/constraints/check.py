"""Splits text into units as COLLIE does, and checks constraints on them.

Punctuation alone is not a word. Units are stripped of white space and then of periods. As a
character, a period therefore becomes an empty string, which still counts. Comparisons ignore case
and surrounding punctuation ("Bird," equals "bird") unless a string is only punctuation. A missing
value (the ninth of five words) satisfies only ``!=`` and ``not in``.

`read` refuses constraints that no text satisfies, or that every text satisfies. They are mistakes:
a word is never "New York", and a count is never below 0.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from harness.errors import DataInvalid
from harness.plugin_interface import wrap_errors
from harness.plugins.benchmarks.collie.constraints import grammar
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Constraint,
    Count,
    ForEach,
    Identity,
    Max,
    MeasureOp,
    Min,
    Position,
    Relation,
    Specification,
    Target,
    Transformation,
    Unit,
    listed,
)
from harness.scoring.text import has_other_scripts, sentences, words

if TYPE_CHECKING:
    from harness.plugins.benchmarks.punkt import Punkt

PARAGRAPH_BREAK = "\n\n"

MEMORABLE = 8_000  # maximum characters of a text whose units are cached


class Splitter:
    """A splitter of text into paragraphs, sentences, words or characters, with a cache."""

    def __init__(self, sentences: Punkt, word_tokens: Callable[[str], list[str]]) -> None:
        self.name = sentences.name
        self._sentences = sentences
        self._word_tokens = word_tokens
        self._cached = lru_cache(256)(self._split)  # several constraints split the same text

    def units(self, text: str, unit: Unit) -> tuple[str, ...]:
        """Return the text's units of one kind, stripped of white space and periods."""
        if len(text) > MEMORABLE or unit == "character":
            return self._split(text, unit)
        return self._cached(text, unit)

    def sentences(self, text: str) -> Iterator[str]:
        """Yield the sentences of the text as written."""
        return (text[begin:end] for begin, end in self._sentences.span_tokenize(text))

    def _split(self, text: str, unit: Unit) -> tuple[str, ...]:
        if unit == "character":
            if text.isalnum():  # letters and digits need no stripping
                return tuple(text)
            return _bared(text)
        if unit == "paragraph":
            return _bared(text.split(PARAGRAPH_BREAK))
        if unit == "word" and (plain := plain_words(text)) is not None:
            return tuple(plain)
        sentences = self._sentences.tokenize(text)
        if unit == "sentence":
            return _bared(sentences)
        tokens = chain.from_iterable(map(self._word_tokens, sentences))
        return _bared(token for token in tokens if token not in string.punctuation)


class UnicodeSplitter(Splitter):
    """A splitter whose words and sentences are those of Unicode in text that is not English.

    Splitting raises `Uncountable` if there are no rules for the text's script.
    """

    def _split(self, text: str, unit: Unit) -> tuple[str, ...]:
        if unit in ("word", "sentence") and has_other_scripts(text):
            if unit == "word":
                return tuple(words(text))
            return _bared(sentences(text, self._sentences.tokenize))
        return super()._split(text, unit)


def _bared(units: Iterable[str]) -> tuple[str, ...]:
    return tuple([unit.strip().strip(".") for unit in units])


@cache
def splitter(nltk_data: Path | None = None, kind: type[Splitter] = Splitter) -> Splitter:
    """Return a splitter that uses `punkt.best`, which also searches the folder ``nltk_data``."""
    from harness.plugins.benchmarks import punkt  # the import of NLTK takes 0.4 s

    return kind(punkt.best(nltk_data), punkt.word_tokens)


# A shortcut for the words of plain English text, with exactly NLTK's results, as the tests confirm.
# NLTK's tokeniser runs about 25 substitutions over each sentence. `plain_words` recognises text in
# which they amount to this: punctuation is split off and dropped, double quotes become words, and
# clitics ('s, n't) are split off. Anything else (5,000, --, ..., cannot, 'tis, non-ASCII letters, a
# quote attached to a sentence's end) is left to NLTK. Where sentences end does not matter: COLLIE
# drops a word's final period in any case, and text with a clitic before a period is left to NLTK.

_DROPPED = str.maketrans(dict.fromkeys(",:;?!@#$%&()[]", " "))
"""Maps punctuation marks to spaces. NLTK splits these marks off, and COLLIE does not count them as
words."""

_NOT_PLAIN = re.compile(
    r"""
      [^A-Za-z0-9\ \n.,:;?!@\#$%&()\[\]"'-]     # any other character
    | \.\. | -- | "" | \n"
    | (?<![A-Za-z])' | '(?![A-Za-z])            # an apostrophe that is not inside a word
    | [,:](?![ \n"]|\Z)                         # glued to what follows, as in 5,000
    | (?<![ (\[])(?<!\A)"(?![ \n,;:?!.)\]]|\Z)  # neither opens nor closes
    | (?<=[.?!])"(?![ \n]|\Z)                   # glued to what follows a sentence's end
    """,
    re.VERBOSE,
)

_JOINED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna")  # words that NLTK splits in two

_OPENING_QUOTE = re.compile(r'(?:\A|(?<=[ (\[]))"')
_CLITIC = re.compile(r"(.+)('(?:[sSmMdD]|ll|LL|re|RE|ve|VE)|n't|N'T)")


def plain_words(text: str) -> list[str] | None:
    """Return the words of a text without periods around them, or None if NLTK is needed."""
    if _NOT_PLAIN.search(text) or any(word in text.lower() for word in _JOINED):
        return None
    if '"' in text:
        text = _OPENING_QUOTE.sub(" `` ", text).replace('"', " '' ")
    tokens: list[str] = []
    for word in text.translate(_DROPPED).split():
        if "'" not in word or word == "''":
            tokens.append(word)
        elif word.count("'") == 1 and (clitic := _CLITIC.fullmatch(word)):
            tokens += clitic.groups()
        else:
            return None
    # Punctuation alone is dropped, except for NLTK's double quotes, `` and ''.
    return [token.strip(".") for token in tokens if token not in string.punctuation]


Observed: TypeAlias = "int | str | tuple[Observed, ...] | None"
"""The result of a transformation. None: the text has no such value, such as a ninth word."""

_MARKS = string.punctuation + " "
_ORDERS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class ConstraintFinding:
    """A base constraint, its target, the value observed in the text, and the verdict."""

    base: Base
    target: Target
    observed: Observed
    passed: bool


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether the text satisfies a specification, with a finding for each base constraint."""

    passed: bool
    findings: tuple[ConstraintFinding, ...]


def check(specification: Specification, text: str, units: Splitter | None = None) -> CheckResult:
    """Check the text against a specification, by default with the units of `splitter`."""
    units = units or splitter()
    observed = [extract(base, text, units) for base, _ in specification.bases()]
    return checked(specification, observed)


def checked(specification: Specification, observed: Iterable[Observed]) -> CheckResult:
    """Return the result of a check, given the value observed for each base constraint, in order."""
    findings = []
    for (base, target), value in zip(specification.bases(), observed, strict=True):
        passed = satisfied(base, value, target)
        findings.append(ConstraintFinding(base, target, value, passed))
    verdicts = iter([finding.passed for finding in findings])
    return CheckResult(_passed(specification.constraint, verdicts), tuple(findings))


def extract(base: Base, text: str, units: Splitter) -> Observed:
    """Return the value that a base constraint compares, or None if the text has no such value."""
    part = located(base, text, units)
    if part is None:
        return None
    if base.input_level is None:
        return _transformed(base.transformation, units.units(part, base.target_level))
    outer = units.units(part, base.input_level)
    inner = tuple([units.units(unit, base.target_level) for unit in outer])
    return _transformed(base.transformation, inner)


def located(base: Base, text: str, units: Splitter) -> str | None:
    """Return the part of the text that a base constraint applies to, or None if it is missing."""
    for part in base.within or ():
        units_of_part = units.units(text, part.level)
        if not -len(units_of_part) <= part.index < len(units_of_part):
            return None
        text = units_of_part[part.index]
    return text


def satisfied(base: Base, observed: Observed, target: Target) -> bool:
    """Return whether the observed value meets the target.

    With a reduction, the value is a list, and the reduction says how many items must meet the
    target.
    """
    if base.reduction is None:
        return holds(base.relation, observed, target)
    verdicts = outcomes(base, observed, target)
    if verdicts is None:
        return False
    n_met = sum(verdicts)
    number = base.reduction_value or 0
    match base.reduction:
        case "all":
            return n_met == len(verdicts)
        case "any":
            return n_met > 0
        case "none":
            return n_met == 0
        case "at least":
            return n_met >= number
        case "at most":
            return n_met <= number
        case "exactly":
            return n_met == number


def outcomes(base: Base, observed: Observed, target: Target) -> list[bool] | None:
    """Return whether each observed item meets its target.

    A single target applies to all items. The result is None if the value is missing, or if the
    numbers of targets and items differ.
    """
    if not isinstance(observed, tuple):  # a missing value
        return None
    targets = target
    if not isinstance(targets, tuple):
        targets = (targets,) * len(observed)
    if len(observed) != len(targets):
        return None
    pairs = zip(observed, targets, strict=True)
    return [holds(base.relation, value, item_target) for value, item_target in pairs]


def _passed(constraint: Constraint, verdicts: Iterator[bool]) -> bool:
    if isinstance(constraint, Base):
        return next(verdicts)
    parts = [_passed(part, verdicts) for part in constraint.constraints]
    if constraint.logic == "or":
        return any(parts)
    return all(parts)


def _transformed(transformation: Transformation, units: Observed) -> Observed:
    if isinstance(transformation, Identity) or units is None:
        return units
    assert not isinstance(units, int)  # `grammar.read` refuses anything else
    match transformation:
        case Count(of=None):
            return len(units)
        case Count(of=unit):
            return list(map(bare, units)).count(bare(unit))
        case MeasureOp(name=name):
            texts = tuple(unit for unit in units if isinstance(unit, str))
            with wrap_errors(f"The measure {name!r}"):
                return int(grammar.measure(name).number(texts))
        case Position(index=index):
            if isinstance(index, int):
                return _at(units, index)
            return tuple([_at(units, place) for place in index])
        case ForEach(do=do):
            return tuple([_transformed(do, unit) for unit in units])
        case Min(do=do):
            return min(_numbers(do, units), default=None)
        case Max(do=do):
            return max(_numbers(do, units), default=None)


def _numbers(transformation: Transformation, units: Observed) -> list[int]:
    """Return the numbers that a transformation computes, without missing ones."""
    numbers = _transformed(transformation, units)
    assert isinstance(numbers, tuple)
    return [number for number in numbers if isinstance(number, int)]


def _at(units: tuple[Observed, ...] | str, index: int) -> Observed:
    return units[index] if -len(units) <= index < len(units) else None


def holds(relation: Relation, observed: Observed, target: Target) -> bool:
    """Return whether the relation holds between the observed value and the target.

    ``in`` requires that the value contains all targets, and ``not in`` that it contains none.
    """
    if relation in ("in", "not in"):
        contained = [_contains(observed, part) for part in listed(target)]
        if relation == "in":
            return all(contained)
        return not any(contained)
    expected: Observed = target
    if not isinstance(observed, tuple):
        expected = sole(target)
    if relation not in _ORDERS:
        is_equal = bare(observed) == bare(expected)
        return is_equal is (relation == "==")
    if not isinstance(observed, int) or not isinstance(expected, int):
        return False
    return bool(_ORDERS[relation](observed, expected))


def sole(value: Observed) -> Observed:
    """Return the item of a one-item list, or else the value itself."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def bare(value: Observed) -> Observed:
    """Return a string in lower case, without punctuation and spaces at either end.

    Strings of only punctuation, numbers and None are returned unchanged. In a tuple, strings are
    converted, but inner tuples are not.
    """
    if isinstance(value, str):
        return value.lower().strip(_MARKS) or value
    if isinstance(value, tuple):
        return _all_bare(value)
    return value


@lru_cache(maxsize=128)  # several constraints compare the words of one text
def _all_bare(values: tuple[Observed, ...]) -> tuple[Observed, ...]:
    return tuple([value if isinstance(value, tuple) else bare(value) for value in values])


def _contains(observed: Observed, target: Target) -> bool:
    haystack = bare(observed)
    needle = bare(target)
    if isinstance(haystack, str):
        return isinstance(needle, str) and needle in haystack
    return isinstance(haystack, tuple) and needle in haystack


def fingerprints(specification: Specification) -> Iterator[tuple[str, str]]:
    """Yield the name of each measure in a specification, and its source's SHA-256 or "unknown"."""
    for base, _ in specification.bases():
        if (name := grammar.measure_name(base)) is not None:
            yield name, _code_sha256(name)


@cache
def _code_sha256(name: str) -> str:
    try:
        code = inspect.getsource(type(grammar.measure(name)))
    except (OSError, TypeError):  # no source file
        return "unknown"
    return hashlib.sha256(code.encode()).hexdigest()


Element: TypeAlias = "Unit | Literal['letter', 'list']"
"""An item of a list: a unit, a letter of a unit's text, or a list of units."""

_LOWEST = {"==": 0, "!=": 0, ">=": 1, ">": 0, "<=": 0, "<": 1}
"""The lowest target of each relation that some counts meet and other counts miss."""
_ALWAYS = ("!=", ">=", ">")  # relations that any count meets if the target is lower than that


def read(raw: object, where: str = "the constraint") -> Specification:
    """Parse and check a specification like `grammar.read`, and refuse one that decides nothing.

    Raises:
        DataInvalid: If it is malformed, or if one of its base constraints is satisfied by no text,
            or by every text. The message begins with ``where``.
    """
    specification = grammar.read(raw, where)
    refuse_undecided(specification.constraint, specification.targets, where)
    return specification


def refuse_undecided(constraint: Constraint, targets: Target, where: str) -> None:
    """Raise DataInvalid if no text satisfies a base constraint, or if every text does."""
    for base, target, place in grammar.base_constraints(constraint, targets, where):
        if why := problem(base, target):
            raise DataInvalid(f"{place}: {why}.")


def problem(base: Base, target: Target) -> str:
    """Return why no text satisfies a base constraint, or why every text does, or ""."""
    operation, depth = _innermost(base.transformation)
    elements: list[Element] = [base.target_level, "letter"]
    if base.input_level:
        elements.insert(0, "list")
    if depth >= len(elements) or (depth and elements[depth - 1] == "character"):
        return "a character has no parts"
    # What `operation` counts or finds. Lists have the units as items.
    element = elements[depth + (elements[depth] == "list")]
    for text in _texts(operation, target):
        if why := _never(text, element, is_target=not isinstance(operation, Count)):
            return why
    if isinstance(operation, Count):
        counted = base.input_level if elements[depth] == "list" else element
        fewest = 1 if counted == "paragraph" and operation.of is None else 0
        if why := _count_problem(base, target, fewest):
            return why
    return _reduction_problem(base, target)


def _innermost(transformation: Transformation) -> tuple[Transformation, int]:
    """Return the operation that is not applied to results, and in how many lists its input is."""
    depth = 0
    while isinstance(transformation, ForEach | Max | Min):
        if isinstance(transformation, ForEach) and not isinstance(transformation.do, Identity):
            depth += 1
        transformation = transformation.do
    return transformation, depth


def _texts(operation: Transformation, target: Target) -> Iterator[str]:
    """Yield the texts that are compared with units."""
    if isinstance(operation, Count):
        if operation.of is not None:
            yield operation.of
        return
    for value in _values(target):
        if isinstance(value, str):
            yield value


def _values(target: Target) -> Iterator[int | str]:
    if isinstance(target, tuple):
        for part in target:
            yield from _values(part)
    else:
        yield target


def _never(text: str, element: Element, is_target: bool) -> str:
    """Return why no element equals a text (as `bare` compares them), or ""."""
    compared = bare(text)
    assert isinstance(compared, str)
    if element in ("letter", "character") and len(compared) > 1:
        return f"{text!r:.60} is not one character"
    if element == "character" and compared and not compared.strip().strip("."):
        return f"no character equals {text!r}: spaces and periods are removed before comparing"
    if element == "word" and compared:
        words: Sequence[str] | None = plain_words(compared)
        if words is None and is_target and not compared.isascii():
            # The published targets include 1763–1864, which NLTK splits since 3.10.
            words = compared.split()
        elif words is None:
            words = splitter().units(compared, "word")
        if len(words) != 1:
            parts = " and ".join(map(repr, words[:4])) or "no words"
            return f"no word equals {text!r:.60}, because it is split into {parts:.120}"
    if element == "paragraph" and PARAGRAPH_BREAK in compared:
        return "no paragraph equals the target, because it has a blank line"
    return ""


def _count_problem(base: Base, target: Target, fewest: int) -> str:
    """Return why a count, which is at least ``fewest``, always or never meets its target."""
    lowest = _LOWEST.get(base.relation)
    if lowest is None:
        return ""
    always = base.relation in _ALWAYS
    may_be_missing = base.within or isinstance(base.transformation, Max | Min)
    if always and may_be_missing:
        return ""
    for number in _values(target):
        if isinstance(number, int) and number < lowest + fewest:
            holds = "always" if always else "never"
            return f"a count is at least {fewest} here, so '{base.relation} {number}' {holds} holds"
    return ""


def _reduction_problem(base: Base, target: Target) -> str:
    """Return why a reduction always or never holds, or ""."""
    number = base.reduction_value or 0
    if base.reduction is None:
        return ""
    n_targets = len(target) if isinstance(target, tuple) else None
    n_values = n_targets
    if isinstance(base.transformation, Position) and isinstance(base.transformation.index, tuple):
        n_values = len(base.transformation.index)
        if n_targets not in (None, n_values):
            return f"{n_values} positions need as many targets, not {n_targets}"
        if base.reduction == "at most" and number >= n_values:
            return f"'at most {number}' always holds for {n_values} positions"
    if base.reduction == "at least" and base.reduction_value == 0:
        return "'at least 0' always holds"
    if n_values is None or base.reduction not in ("at least", "exactly"):
        return ""
    if number > n_values:
        return f"'{base.reduction} {number}' never holds for {n_values} values"
    return ""
