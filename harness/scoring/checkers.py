"""Checkers: rules that decide whether a text passes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import ConfigError, DataInvalid, reraise_as, suggest_name
from harness.plugin_loader import Kind
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring import quoted_list, validators
from harness.scoring.patterns import Pattern, PatternTooSlow
from harness.scoring.text import (
    ExtractedValue,
    MayCountWords,
    Normalization,
    TextComparison,
    Uncountable,
    count_words,
    is_whole_word,
)
from harness.scoring.validators import STRICT, BlockExtraction, Draft, schemas, score_document
from harness.wording import truncate

_COMPOUND_WORD = re.compile(
    r"(?<!\d[.,])(?<![\d.,\[{])\d{1,3}(?:(?:,\d{3})++(?:\.\d++)?|(?:\.\d{3})++,\d++"
    r"|(?:['\u2019\xa0\u2009\u202f]\d{3})++(?:[.,]\d++)?)(?![.,]?\d)"  # 1,500.25
    r"|(?<![\w.,\[{])\d++,\d++(?!,?\d)"  # 1,5
    r"|(?<!\d)(?<!\d\.)\d++(?:\.\d++)++"  # 1.5
    r"|(?<![\w.,:/-])(?:\d++(?:[:/]\d++)++|\d{4}-\d\d-\d\d)(?!\w)"  # 10:30, 3/5, 2024-05-01
    r"|(?<![\w)\]])[-\u2212]?\.\d++|(?<![\w)\]])[-\u2212]\d++(?:[.,]\d++)*+"  # .5 and -5
    r"|[^\W_]\+\+|[^\W_][+#](?!\w)|(?<!\S)\.[^\W\d_]"  # C++, C# and .NET
    r"|(?i:n['\u2019]t|(?<=[^\W_])['\u2019](?:s|d|m|ll|re|ve))(?!\w)"  # don't
    r"|(?i:\b[oy]['\u2019][^\W\d_]++)"  # O'Neil
)
"""Matches what is one word despite its signs: numbers, names such as C++, and contractions."""
_EMPHASIS_MARK = re.compile(r"(?<!\w)(?P<opening>_{1,3})(?=[^\s_])|(?<=[^\s_])_{1,3}(?!\w)|\n\s*\n")


class ContainsChecker(Checker):
    """Passes text that contains all, any or none of the targets.

    Args:
        target: A string, or a list of strings.
        mode: How many targets the text must contain: ``all``, ``any`` (one or more) or ``none``.
        ignore_case: Treat ``a`` and ``A`` as equal.
        whole_words: Find ``oak`` only as a whole word, not within ``oaken``, and neither ``5`` in
            ``1.5`` nor ``C`` in ``C++``. In scripts without spaces, words are those of ICU; without
            the extra ``icu``, any match counts.
        normalize: Unicode form in which texts are compared. NFKC also treats full-width characters
            and ligatures as equal to plain ones, and ``x²`` as equal to ``x2``. With ``none``,
            non-breaking and other special spaces and hyphens do not equal plain ones.
        straight_quotes: Treat curly quotes and apostrophes as equal to straight ones.
    """

    def __init__(
        self,
        target: str | list[str],
        mode: Literal["all", "any", "none"] = "all",
        ignore_case: bool = False,
        whole_words: bool = False,
        normalize: Normalization = "NFC",
        straight_quotes: bool = False,
    ) -> None:
        self._targets = target if isinstance(target, list) else [target]
        if not self._targets or not all(self._targets):
            raise ConfigError("The checker 'contains' has no target, or an empty one.")
        self._mode = mode
        self._whole_words = whole_words
        self._normalize = TextComparison(ignore_case, normalize, straight_quotes)

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return whether the text passes, with the missing or forbidden targets as the reason."""
        normalized = self._normalize(text)
        contained = [target for target in self._targets if self._is_in(target, normalized, text)]
        missing = [target for target in self._targets if target not in contained]
        passed, reason = {
            "none": (not contained, f"contains {quoted_list(contained)}"),
            "any": (bool(contained), f"contains none of {quoted_list(missing)}"),
            "all": (not missing, f"lacks {quoted_list(missing)}"),
        }[self._mode]
        details = {"found": len(contained), "of": len(self._targets)}
        return Score(passed, passed, "" if passed else reason, details)

    def _is_in(self, target: str, normalized_text: str, text: str) -> bool:
        normalized = self._normalize(target)
        if not normalized or (normalized in (" ", "-") and normalized != target):
            return target in text  # a zero-width or non-breaking space that the check looks for
        if not self._whole_words:
            return normalized in normalized_text
        if _has_word(normalized, normalized_text):
            return True
        return _has_word(normalized, _blank_emphasis(normalized_text))


def _has_word(target: str, text: str) -> bool:
    if target not in text:
        return False
    inner_offsets = set[int]()  # of words
    for match in _COMPOUND_WORD.finditer(text):
        inner_offsets.update(range(match.start() + 1, match.end()))
    offset = text.find(target)
    while offset >= 0:
        is_inside = offset in inner_offsets or offset + len(target) in inner_offsets
        if not is_inside and is_whole_word(target, text, offset, apart=True):
            return True
        offset = text.find(target, offset + 1)
    return False


def _blank_emphasis(text: str) -> str:
    """Return text with spaces in place of underscores around emphasis, as in ``_Paris_``."""
    characters = list(text)
    opened: dict[int, int] = {}  # offsets of opening underscores by their count
    for match in _EMPHASIS_MARK.finditer(text):
        length = len(match[0])
        if "\n" in match[0]:
            opened.clear()
        elif match["opening"]:
            opened[length] = match.start()
        elif length in opened:
            start = opened.pop(length)
            characters[start : start + length] = " " * length
            characters[match.start() : match.end()] = " " * length
    return "".join(characters)


_SIGN = "[-\u2010-\u2013\u2212\ufe63\uff0d]"  # hyphens, short dashes and minus signs
_MINUS_SIGN = re.compile(rf"(?<![^\W\d_]{{2}})(?<![A-Z]){_SIGN}(?=[$€£¥]?\.?\d)")
"""Matches the sign of a number, or a hyphen between numbers (``2-1``) or after a variable
(``x-1``). After a word or a capital letter, as in ``covid-19``, a hyphen is punctuation."""
_GROUPED_DIGITS = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])|[1-9]\d{0,2}(?:['\u2019_]\d{3})+(?!\d)"
)
_MEANINGFUL_PUNCTUATION = re.compile(
    r"(?<=\d)(?:[^\w\s]|_)+(?=\d)"  # 1.5, 3:30, 1/2
    r"|(?<![\w.])\.(?=\d)"  # .5
    r"|(?<=\d)[%‰٪\uff05]|(?<=\d\s)[%‰٪\uff05]|[%‰٪\uff05](?=\s?\d)"
    r"|(?<=[^\W\d_])\#"  # C#
    r"|(?<=(?<!\w)[A-Z])[-\u2010-\u2013\u2212](?![\w-])"  # a grade: A-
)
"""Matches punctuation that changes the meaning of a number or name."""


class ExactMatchChecker(Checker):
    """Passes text that equals the expected text, ignoring leading and trailing white space.

    A number that ``extract`` has read equals a target with the same value: 1200 and ``1,200``.

    Args:
        target: The expected text, or a list of alternatives.
        ignore_case: Treat ``paris`` and ``Paris`` as equal.
        ignore_punctuation: Treat ``Paris.`` and ``Paris`` as equal, and ``1,000`` and ``1000``.
            Signs, separators between digits, percent signs beside numbers, the ``#`` of ``C#`` and
            the ``-`` of ``A-`` still count: ``-5`` does not equal ``5``, nor ``1.5`` ``15``. Text
            that is nothing but punctuation is compared as it is.
        ignore_space: Treat any run of spaces and line breaks as one space.
        normalize: Unicode form in which texts are compared. NFKC also treats full-width characters
            and ligatures as equal to plain ones, and ``x²`` as equal to ``x2``. With ``none``,
            non-breaking and other special spaces and hyphens do not equal plain ones.
        straight_quotes: Treat curly quotes and apostrophes as equal to straight ones.
    """

    def __init__(
        self,
        target: str | int | float | bool | list[str | int | float | bool],
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_space: bool = False,
        normalize: Normalization = "NFC",
        straight_quotes: bool = False,
    ) -> None:
        self._normalize = TextComparison(ignore_case, normalize, straight_quotes)
        self._ignore_space = ignore_space
        self._ignore_punctuation = ignore_punctuation
        if not (targets := target if isinstance(target, list) else [target]):
            raise ConfigError("The checker 'exact_match' has an empty list of targets.")
        # true and false are written as in JSON
        self._texts = [
            str(value).lower() if isinstance(value, bool) else str(value) for value in targets
        ]
        self._targets = frozenset(map(self._canonical, self._texts))

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return True or False, with a reason that never reveals the target."""
        passed = self._canonical(text) in self._targets
        if isinstance(text, ExtractedValue):
            passed = passed or any(map(text.equals, self._texts))
        reason = f"{truncate(text.strip(), 60)!r} is not the expected answer"
        return Score(passed, passed, "" if passed else reason)

    def _canonical(self, text: str) -> str:
        """Return the form of a text that equal texts have in common."""
        if self._ignore_punctuation:  # capital letters tell names from variables
            text = _strip_punctuation(text)
        text = self._normalize(text)
        if self._ignore_space:
            text = " ".join(text.split())
        return text.strip()


def _strip_punctuation(text: str) -> str:
    original = text
    text = _GROUPED_DIGITS.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _MINUS_SIGN.sub("\u2212", text)  # a mathematical symbol, not punctuation
    meaningful = set[int]()  # offsets of punctuation
    for match in _MEANINGFUL_PUNCTUATION.finditer(text):
        meaningful.update(range(*match.span()))
    characters = []
    for offset, character in enumerate(text):
        is_punctuation = character == "`" or unicodedata.category(character)[0] == "P"
        if offset in meaningful or not is_punctuation:
            characters.append(character)
    stripped = "".join(characters)
    return stripped if stripped.strip() else original


class JsonSchemaChecker(Checker):
    """Passes an answer that is valid against a JSON Schema.

    Args:
        schema: The schema, or the path of a JSON or YAML file (.yaml, .yml) that contains it.
        format: Format of the answer: json, or one that a plug-in brings, such as yaml or xml.
        mode: ``strict``, or a way to validate that a plug-in brings, such as ``paper``.
        draft: The draft to assume for a schema without ``$schema``.
        extraction: How to find the answer in the reply (`harness.scoring.extraction`).
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool | str,
        format: str = "json",
        mode: str = STRICT,
        draft: Draft = "2020-12",
        extraction: str = "whole",
    ) -> None:
        self.extraction = BlockExtraction(extraction)
        _check_option("format", format, ["json", *Kind("document_formats").names()])
        _check_option("mode", mode, [STRICT, *Kind("schema_validators").names()])
        with reraise_as(ConfigError, "The checker 'json_schema': "):
            loaded = _load_schema(schema) if isinstance(schema, str) else schema
            validators.validator(loaded, mode=mode, draft=draft)
        self.constrains = format == "json" and self.extraction.name == "whole"
        self.schema: dict[str, Any] | bool = loaded
        self._score = partial(score_document, schema=loaded, format=format, mode=mode, draft=draft)

    @cached_property
    def misspelt(self) -> str:
        """A sentence on the first keyword that is probably misspelt, or ""."""
        for keyword, meant in schemas.misspelt_keywords(self.schema).items():
            return (
                f"{keyword!r:.60} is no keyword of JSON Schema, so it has no effect; {meant!r} is."
            )
        return ""

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return whether the answer is valid, with violations of the schema as the reason.

        The score has no value if validation takes too long.

        Raises:
            Unparseable: If the reply contains no answer in the expected format.
        """
        return self._score(self.extraction.read(text))["valid"]


def _check_option(option: str, value: str, names: Sequence[str]) -> None:
    if value not in names:
        problem = f"Option {option!r} of the checker 'json_schema': there is no {value!r:.60}."
        raise ConfigError(problem, suggest_name(value, names))


def _load_schema(name: str) -> Any:
    try:
        text = Path(name).read_text("utf-8")
        format = "yaml" if name.endswith((".yaml", ".yml")) else "json"
        return validators.read(text, format)
    except (validators.UnparseableDocument, OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        remedy = "Give the path of a schema in JSON or YAML, or the schema itself."
        raise DataInvalid(f"The schema file {name!r}: {problem}.", remedy) from None


_STANDALONE_MARK = re.compile(r"[\u0300-\u036f][?*+{]|\[[^\[\]]*[\u0300-\u036f]")
"""Matches a combining mark that is quantified or in a set, and so must not join a letter."""


class RegexMatchChecker(Checker):
    """Passes text that matches a pattern. A search that takes too long gives no verdict.

    The text is searched as written and, if that differs, in the normalisation form NFC, with the
    pattern in NFC: ``café`` matches whether its last letter is one character or two.

    Args:
        pattern: A regular expression in the syntax of the regex package (a superset of Python's).
        full: Require the whole text to match, not just a part of it.
        ignore_case: Treat ``a`` and ``A`` as equal, and ``ß`` and ``SS``.
        negate: Pass text that does not match.
    """

    def __init__(
        self, pattern: str, full: bool = False, ignore_case: bool = False, negate: bool = False
    ) -> None:
        where = "The checker 'regex_match'"
        composed = pattern  # in NFC, if that does not change its meaning
        if not _STANDALONE_MARK.search(pattern):
            composed = unicodedata.normalize("NFC", pattern)
        self._pattern = Pattern(pattern, where, ignore_case=ignore_case, full_case=True)
        self._composed = self._pattern
        if composed != pattern:
            self._composed = Pattern(composed, where, ignore_case=ignore_case, full_case=True)
        self._full = full
        self._negate = negate

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score, without a value if the search takes too long."""
        try:
            matches = self._matches(text)
        except PatternTooSlow as error:
            return Score(None, None, error.message)
        passed = matches is not self._negate
        requirement = "must not match" if self._negate else "must match"
        pattern = truncate(self._pattern.pattern.replace("\n", "\\n"), 120)
        return Score(passed, passed, "" if passed else f"{requirement} '{pattern}'")

    def _matches(self, text: str) -> bool:
        if self._search(self._pattern, text):
            return True
        composed = unicodedata.normalize("NFC", text)
        if composed == text and self._composed is self._pattern:
            return False
        return self._search(self._composed, composed)

    def _search(self, pattern: Pattern, text: str) -> bool:
        match = pattern.fullmatch(text) if self._full else pattern.search(text)
        return match is not None


def _format_word_counts(bound: int, n_words: int) -> str:
    return f"{bound} word{'' if bound == 1 else 's'}, has {n_words}"


class WordCountChecker(MayCountWords):
    """Passes text whose number of words is within bounds.

    Text in a script without spaces has no verdict without the extra ``icu``.

    Args:
        exactly: Required number of words; cannot be combined with the other options.
        at_least: Minimum number of words.
        at_most: Maximum number of words.
    """

    def __init__(
        self, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        bounds = [bound for bound in (exactly, at_least, at_most) if bound is not None]
        if not bounds or min(bounds) < 0 or (exactly is not None and len(bounds) > 1):
            problem = "needs exactly, or at_least and at_most (or one of them), none below 0."
            raise ConfigError(f"The checker 'word_count' {problem}")
        if at_least is not None and at_most is not None and at_least > at_most:
            problem = f"no text has at least {at_least} and at most {at_most} words."
            raise ConfigError(f"The checker 'word_count': {problem}")
        self._exactly = exactly
        self._at_least = at_least
        self._at_most = at_most

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason states the count and the bound.

        The score has no value if the words cannot be counted.
        """
        try:
            n = count_words(text)
        except Uncountable as error:
            return error.score()
        reason = ""
        if self._exactly is not None and n != self._exactly:
            reason = f"exactly {_format_word_counts(self._exactly, n)}"
        elif self._at_least is not None and n < self._at_least:
            reason = f"at least {_format_word_counts(self._at_least, n)}"
        elif self._at_most is not None and n > self._at_most:
            reason = f"at most {_format_word_counts(self._at_most, n)}"
        return Score(not reason, not reason, reason, {"words": n})
