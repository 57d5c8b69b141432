"""What instructions' checks share: their table, and words and sentences as the official ones.

All functions take bounded time for any text. The official checkers count with NLTK 3.9. Its
splitters have changed since, so the earlier ones are used here: words are ``\\w+`` of Python's
``re``, and `harness.plugins.benchmarks.punkt` splits sentences and tokens.
"""

from __future__ import annotations

import contextlib
import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness.config.settings import Settings
from harness.scoring import quoted_list
from harness.scoring.patterns import Pattern
from harness.scoring.text import folded

Check: TypeAlias = Callable[..., None]
"""A function of the text and an instruction's arguments. It raises NotFollowed if the text does not
follow the instruction.

If the published code misreads some texts, the function has a keyword argument ``corrected``. If
False (the default), the verdict is the published one; if True, it is the right one.
"""


class NotFollowed(Exception):
    """The text does not follow an instruction. The message says why."""


@dataclass(frozen=True)
class InstructionTable:
    """The kinds of instructions of a benchmark.

    Attributes:
        checks: Their checks, by id.
        versions: Returns, for the ids of some instructions, the versions of packages and hashes of
            data on which their verdicts depend, by name.
        english: Ids of those that are only for text divided into words or sentences as in English.
        english_officially: Ids of further ones of which this holds for the official check.
        counts_words: Ids of those whose corrected checks count words in any script.
    """

    checks: Mapping[str, Check]
    versions: Callable[[Collection[str]], dict[str, str]]
    english: Collection[str] = ()
    english_officially: Collection[str] = ()
    counts_words: Collection[str] = ()


def decides(checks: dict[str, Check], name: str) -> Callable[[Check], Check]:
    """Return a decorator that enters a function in ``checks`` as the check of an instruction."""

    def enter(check: Check) -> Check:
        checks[name] = check
        return check

    return enter


if TYPE_CHECKING:
    from harness.plugins.benchmarks.punkt import Punkt

Relation = Literal["less than", "at least"]  # the published comparisons of a count with a number

_PUNCTUATION = str.maketrans("", "", string.punctuation)
CURLY_TO_STRAIGHT = str.maketrans(
    "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}", '""'
)
_CLOSING = re.compile(r"""(?<=[.!?])["')\]}‘’“”«»‹›]+""")  # noqa: RUF001
_TO_STRAIGHT = str.maketrans("‘’‹›“”«»", "'" * 4 + '"' * 4)  # noqa: RUF001
_QUANTIFIERS = frozenset("*+?{")


def words(text: str) -> list[str]:
    """Return the words of the text: runs of letters, digits and underscores."""
    return re.findall(r"\w+", text)


def folding(corrected: bool) -> Callable[[str], str]:
    """Return the function that removes differences of case, in an official or corrected check."""
    return folded if corrected else str.lower


def bare(word: str) -> str:
    """Return a word without ASCII punctuation and spaces at either end."""
    return word.strip(string.punctuation + " ")


def with_straight_closing_quotes(text: str) -> str:
    """Return the text with straight quotes after the ends of sentences, as NLTK 3.9 needs them."""
    return _CLOSING.sub(lambda closing: closing[0].translate(_TO_STRAIGHT), text)


def unpunctuated(text: str) -> str:
    """Return the text without ASCII punctuation."""
    return text.translate(_PUNCTUATION)


def _punkt() -> ModuleType:
    from harness.plugins.benchmarks import punkt  # the import of NLTK takes 0.4 s

    return punkt


@cache
def splitter() -> Punkt:
    """Return the sentence splitter of NLTK 3.9."""
    earlier: Punkt = _punkt().earlier(Settings().data_dir / "nltk_data")
    return earlier


def sentences(text: str) -> list[str]:
    """Return the sentences of the text, split by Punkt as in NLTK 3.9."""
    parts: list[str] = splitter().tokenize(text)
    return parts


def tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of the text, split as in NLTK 3.9."""
    return [token for sentence in sentences(text) for token in _sentence_tokens(sentence)]


@lru_cache(4_096)
def _sentence_tokens(sentence: str) -> list[str]:
    words: list[str] = _punkt().earlier_word_tokens(sentence)
    return words


def require(holds: object, reason: str) -> None:
    """Raise NotFollowed with a reason if a condition is false."""
    if not holds:
        raise NotFollowed(reason)


def require_none(items: Sequence[str], reason: str) -> None:
    """Raise NotFollowed if ``items`` is not empty. Its items replace ``{}`` in the reason."""
    if items:
        raise NotFollowed(reason.format(quoted_list(items)))


def require_count(
    count: int, expected: int, what: str, bound: str | None = None, where: str = ""
) -> None:
    """Raise NotFollowed ("1 word, 3 wanted") unless ``count`` equals ``expected``.

    ``what`` begins with a plural noun. In the reason, ``bound`` replaces the required number, and
    ``where`` is put at the beginning.
    """
    require(count == expected, where + count_reason(count, what, bound or expected))


def require_relation(
    count: int, relation: Relation, expected: int, what: str, where: str = ""
) -> None:
    """Raise NotFollowed unless ``count`` is "less than" or "at least" ``expected``.

    ``what`` and ``where`` are the same as in `require_count`.
    """
    holds = count < expected if relation == "less than" else count >= expected
    bound = f"{relation.replace('less', 'fewer')} {expected:,}"
    require(holds, where + count_reason(count, what, bound))


def count_reason(count: int, what: str, expected: str | int) -> str:
    """Return a reason such as "1 word, 3 wanted"; ``what`` begins with a plural noun."""
    noun, space, rest = what.partition(" ")
    return f"{count:,} {noun[:-1] if count == 1 else noun}{space}{rest}, {expected} wanted"


@lru_cache(4_096)
def expression(keyword: str, within: str = "{}") -> Any:
    """Compile a keyword as a pattern that ignores case.

    ``within`` is a pattern in which the keyword replaces ``{}``. A search may raise the errors of
    `Pattern.search`.
    """
    pattern = within.replace("{}", keyword)
    if _QUANTIFIERS.isdisjoint(keyword):  # such a pattern takes linear time
        with contextlib.suppress(re.error):  # reported below
            return re.compile(pattern, re.IGNORECASE)
    return Pattern(pattern, "The keyword", ignore_case=True)
